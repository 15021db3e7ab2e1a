"""The doctor's words: what a check found, how bad that is, and what mends it. Judges are in doctor_*.py, their list in doctor_checks.py."""
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpufairy.core.doctor_facts import Facts


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, and something may go wrong
    BAD = "bad"  # something does not work, or is not safe
    UNKNOWN = "unknown"  # it could not be looked at
    SKIPPED = "skipped"  # there is nothing here to look at


@dataclass(frozen=True, slots=True)
class Step:
    """One question on the way to a verdict."""

    asks: str
    verdict: Verdict
    found: str


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    found: str
    fix: tuple[str, ...] = ()  # lines to be typed, in turn; words where this distribution is not known
    fixable: bool = False  # by `--fix`: nothing is restarted, and no GPU touched
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    name: str  # stable: scripts use it
    about: str
    why: str
    judge: Callable[[Facts], Judged]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    about: str
    verdict: Verdict
    found: str
    why: str  # it matters
    fix: tuple[str, ...] = ()
    fixable: bool = False
    steps: tuple[Step, ...] = ()
    where: str = ""  # the host that was looked at; empty: this one


def ok(found: str) -> Judged:
    return Judged(Verdict.OK, found)


def warn(found: str, *fix: str, fixable: bool = False) -> Judged:
    return Judged(Verdict.WARN, found, fix, fixable)


def bad(found: str, *fix: str, fixable: bool = False) -> Judged:
    return Judged(Verdict.BAD, found, fix, fixable)


def unknown(found: str, *fix: str) -> Judged:
    return Judged(Verdict.UNKNOWN, found, fix)


def skipped(found: str, *fix: str) -> Judged:
    return Judged(Verdict.SKIPPED, found, fix)


def finding(check: Check, facts: Facts, where: str = "") -> Finding:
    judged = check.judge(facts)
    return Finding(check.name, check.about, judged.verdict, judged.found, check.why, judged.fix, judged.fixable, judged.steps, where)


def path_of(steps: Iterable[tuple[str, Judged]], all_well: str) -> Judged:
    """One question after the other, up to the first whose answer is the trouble: what comes after it hangs on it."""
    walked: list[tuple[str, Judged]] = []
    for asks, judged in steps:
        walked.append((asks, judged))
        if judged.verdict is Verdict.BAD:
            break
    worst = worst_of([judged.verdict for _, judged in walked])
    told = tuple(Step(asks, judged.verdict, judged.found) for asks, judged in walked)
    if worst is Verdict.OK:
        return Judged(worst, all_well, steps=told)
    trouble = next(judged for _, judged in walked if judged.verdict is worst)
    return Judged(worst, trouble.found, trouble.fix, trouble.fixable, told)


ORDER = (Verdict.BAD, Verdict.WARN, Verdict.UNKNOWN, Verdict.OK, Verdict.SKIPPED)


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    return min(verdicts, key=ORDER.index, default=Verdict.SKIPPED)


def counted(findings: Iterable[Finding]) -> dict[Verdict, int]:
    verdicts = [one.verdict for one in findings]
    return {verdict: verdicts.count(verdict) for verdict in ORDER}
