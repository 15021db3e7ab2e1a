"""One list out of two looks: ours, and the server's at its own host."""
from collections.abc import Sequence
from dataclasses import replace

from gpufairy.core.doctor import Finding, Verdict

# Of two looks at one host the one that saw more counts: the server may run as root, and knows its settings.
BEFORE = (Verdict.BAD, Verdict.WARN, Verdict.OK, Verdict.UNKNOWN, Verdict.SKIPPED)
OWN_ALONE = frozenset({"server", "python"})  # what is asked of whoever runs the command


def merged(ours: Sequence[Finding], servers: Sequence[Finding], *, same_host: bool) -> list[Finding]:
    if not same_host:
        return [*ours, *(one for one in servers if one.check not in OWN_ALONE)]
    by_check = {one.check: one for one in servers if one.check not in OWN_ALONE}
    return [chosen(one, by_check.get(one.check)) for one in ours]


def chosen(own: Finding, servers: Finding | None) -> Finding:
    """Ours where they agree: it can be mended from here."""
    if servers is None or BEFORE.index(own.verdict) <= BEFORE.index(servers.verdict):
        return own
    return replace(servers, where="")
