"""A finding as scripts read it, the same from the API and from the command line; and read back from there."""
from collections.abc import Mapping
from typing import Any

from gpufairy.core.doctor import Finding, Step, Verdict

IS_OK = {Verdict.OK: True, Verdict.WARN: True, Verdict.BAD: False}  # the others are neither: nobody looked


def finding_shape(found: Finding) -> dict[str, Any]:
    return {
        "check": found.check,
        "ok": IS_OK.get(found.verdict),
        "verdict": found.verdict.value,
        "about": found.about,
        "found": found.found,
        "why": found.why,
        "fix": "\n".join(found.fix) or None,
        "fixable": found.fixable,
        "steps": [{"asks": step.asks, "verdict": step.verdict.value, "found": step.found} for step in found.steps],
        "where": found.where or None,
    }


def shaped_finding(told: Mapping[str, Any]) -> Finding:
    """Of a server that may be newer than we: what we do not know is left out, and a verdict that is new is none."""
    steps = tuple(Step(str(step.get("asks", "")), verdict_in(step), str(step.get("found", ""))) for step in told.get("steps") or ())
    fix = tuple(str(told.get("fix") or "").splitlines())
    return Finding(
        str(told.get("check", "")), str(told.get("about", "")), verdict_in(told), str(told.get("found", "")), str(told.get("why", "")),
        fix, False, steps, str(told.get("where") or ""),
    )  # fmt: skip


def verdict_in(told: Mapping[str, Any]) -> Verdict:
    said = str(told.get("verdict", ""))
    return Verdict(said) if said in set(Verdict) else Verdict.UNKNOWN
