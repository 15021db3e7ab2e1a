"""Findings of the doctor for a terminal: what is well in a line each, what is not at the end, with the lines that mend it."""
from collections.abc import Sequence

from rich.text import Text

from gpufairy.cli.tables import print_lines
from gpufairy.client.values import safe
from gpufairy.core.doctor import Finding, Verdict, counted
from gpufairy.core.doctor_checks import GUIDES

MARKS = {
    Verdict.OK: ("●", "green"), Verdict.WARN: ("▲", "yellow"), Verdict.BAD: ("◆", "bold red"), Verdict.UNKNOWN: ("?", "blue"),
    Verdict.SKIPPED: ("·", "bright_black"),
}  # fmt: skip
ORDER = (Verdict.SKIPPED, Verdict.OK, Verdict.UNKNOWN, Verdict.WARN, Verdict.BAD)
WIDTH = 18
WORDS = {Verdict.BAD: "bad", Verdict.WARN: "to look at", Verdict.UNKNOWN: "not known", Verdict.OK: "well", Verdict.SKIPPED: "not here"}


def print_findings(findings: Sequence[Finding], fixed: Sequence[tuple[str, str, str]], *, with_steps: bool) -> None:
    """`fixed`: which check, how bad it was, and what was done. `with_steps`: the reasoning, also where all is well."""
    lines: list[Text] = []
    if not with_steps:
        lines += absent_lines([one for one in findings if one.verdict is Verdict.SKIPPED])
    for one in sorted(findings, key=lambda one: (ORDER.index(one.verdict), one.where)):
        if with_steps or one.verdict is not Verdict.SKIPPED:
            lines += finding_lines(one, with_steps=with_steps)
    now = {one.check: one for one in findings if not one.where}
    for check, before, deed in fixed:
        lines.append(Text(f"mended {check}: {safe(deed)}"))
        lines.append(Text(f"  {before} → {now[check].verdict.value}: {safe(now[check].found)}" if check in now else f"  was {before}"))
    sums = counted(findings)
    lines.append(Text(", ".join(f"{count} {WORDS[verdict]}" for verdict, count in sums.items() if count)))
    if any(one.fixable and not one.where and one.verdict in (Verdict.WARN, Verdict.BAD) for one in findings):
        lines.append(Text("Some of it `fairy doctor --fix` can mend."))
    print_lines(lines)


def absent_lines(skipped: Sequence[Finding]) -> list[Text]:
    """One line for all that are missing for the same reason."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for one in skipped:
        by_reason.setdefault((one.where, one.found), []).append(one.check)
    mark, style = MARKS[Verdict.SKIPPED]
    return [
        Text(f"{mark} {f'{safe(where)}: ' if where else ''}{safe(found)} ({safe(', '.join(names))})", style)
        for (where, found), names in by_reason.items()
    ]


def finding_lines(one: Finding, *, with_steps: bool) -> list[Text]:
    mark, style = MARKS[one.verdict]
    name = f"{safe(one.where)} {safe(one.check)}" if one.where else safe(one.check)
    lines = [Text.assemble((f"{mark} {name:<{WIDTH}} ", style), safe(one.found))]
    is_trouble = one.verdict in (Verdict.BAD, Verdict.WARN)
    if with_steps or (one.check in GUIDES and is_trouble):
        for step in one.steps:
            step_mark, step_style = MARKS[step.verdict]
            lines.append(Text.assemble(" " * 4, (step_mark, step_style), f" {safe(step.asks)} ", (safe(step.found), "bright_black")))
    if is_trouble or with_steps:
        lines.append(Text(f"    {safe(one.why)}", "bright_black"))
    if one.fix and (is_trouble or with_steps):
        lines += [Text(f"      {safe(line)}") for line in one.fix]
    return lines
