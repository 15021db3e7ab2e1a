"""Quota check: what can be said of quotas before anybody waits: requests that can never be within them, and quotas that contradict."""
from collections.abc import Iterable, Sequence

from gpufairy.core.errors import BadInput, QuotaExceeded
from gpufairy.core.node import Node
from gpufairy.core.quota import Allowances
from gpufairy.core.quota_rules import ANY_KIND, Bound, Over, Quota, rules_for, subject
from gpufairy.core.session import Session
from gpufairy.core.share import PARTS, show_parts
from gpufairy.core.week_use import WeekUse


def check_alone(session: Session, quotas: Sequence[Quota], nodes: Sequence[Node]) -> None:
    """Raises QuotaExceeded for one that would wait for ever, since it alone is over a quota, whatever ends."""
    if not quotas:
        return
    nothing_held = Allowances(quotas, (), WeekUse(), session.submitted_at, nodes)
    over = nothing_held.over_anywhere(session.owner, session.team, session.request, max(1, session.request.gang_size))
    if over is not None:
        raise QuotaExceeded(*never_words(over))


def never_words(over: Over) -> tuple[str, str]:
    """What was found, and what to do."""
    who = subject(over.rule.who)
    kind = "" if over.rule.quota.gpu_kind == ANY_KIND else f"{over.rule.quota.gpu_kind} "
    one = over.limit == 1
    if over.bound is Bound.SESSIONS:
        which = f"with {kind}GPUs " if kind else ""
        found = f"quota: {who} may have {over.limit:g} session{'' if one else 's'} {which}at once; {over.asked:g} asked"
        return found, "Ask for fewer at once, or ask an admin for more (fairy quota set)."
    if over.bound is Bound.HOURS:
        return f"quota: {who} may hold no {kind}GPUs; {over.asked:g} asked", "With --preemptible it may borrow what nobody entitled uses."
    found = f"quota: {who} may hold {over.limit:g} {kind}GPU{'' if one else 's'} at once; {over.asked:g} asked"
    return found, f"Ask for {over.limit:g} or fewer; with --preemptible it may borrow what nobody entitled uses."


def check_sound(quota: Quota) -> None:
    """Raises BadInput for one that says nothing, or one thing and its contrary."""
    gpus, hours, sessions = quota.gpu_parts, quota.gpu_hours_week, quota.sessions
    if gpus is None and hours is None and sessions is None and quota.disk_bytes is None:
        next_step = "Give --gpus, --gpu-hours, --sessions or --disk; fairy quota unset takes it away."
        raise BadInput(f"quota of {quota.of}: found no bound", next_step)
    if quota.disk_bytes is not None and (quota.gpu_kind != ANY_KIND or not quota.of.startswith("user:")):
        raise BadInput(f"quota of {quota.of}: disk is of users, not of teams or kinds of GPU", "Write user:NAME, or user:* for each.")
    if (gpus == 0 and hours) or (hours == 0 and gpus):
        found = f"quota of {quota.of}: {show_parts(gpus or 0)} GPUs and {hours:g} GPU-hours a week contradict"
        raise BadInput(found, "Nobody holds GPUs for no time, nor no GPUs for some: mend one of the two, or say none for it.")
    if sessions == 0 and (gpus or hours):
        found = f"quota of {quota.of}: no sessions, but {'GPUs' if gpus else 'GPU-hours'}"
        raise BadInput(found, "Without a session nobody holds a GPU: mend one of the two, or say none for it.")


def notes_on(quota: Quota, quotas: Iterable[Quota], team: str | None) -> list[str]:
    """What of a quota can never be used up, since another that counts too is smaller. `team`: of the user whom it is for."""
    kind, _, name = quota.of.partition(":")
    others = [rule.quota for rule in rules_for(quotas, name, team)] if kind == "user" else [one for one in quotas if one.of == quota.of]
    wider = [one for one in others if one.gpu_kind in (ANY_KIND, quota.gpu_kind) and (one.of, one.gpu_kind) != (quota.of, quota.gpu_kind)]
    return [note for one in wider for note in _smaller(one, quota)]


def _smaller(other: Quota, quota: Quota) -> list[str]:
    of = f"{other.of}, {'any kind' if other.gpu_kind == ANY_KIND else other.gpu_kind}"
    pairs = [
        ("GPUs", _gpus(other.gpu_parts), _gpus(quota.gpu_parts)),
        ("GPU-hours a week", other.gpu_hours_week, quota.gpu_hours_week),
        ("sessions", other.sessions, quota.sessions),
    ]
    return [
        f"{less:g} {what} by the quota of {of}: that one, the smaller, counts"
        for what, less, more in pairs
        if less is not None and more is not None and less < more
    ]


def _gpus(parts: int | None) -> float | None:
    return None if parts is None else parts / PARTS
