"""Runs pytest, and reads what it told of itself (report.py)."""
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

REPORTS = Path("build/runs")
FAILED, INTERRUPTED = 1, 2  # pytest's exit codes
MOST_AGAIN = 40  # more than so many do not fail because the machine is busy


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # by test: the end of what was told
    unsteady: tuple[str, ...] = ()  # failed beside others, and passed alone
    left_out: dict[str, str] = field(default_factory=dict)  # by test: why
    seconds: dict[str, float] = field(default_factory=dict)  # by file
    wrong: tuple[str, ...] = ()  # with the run as a whole

    @classmethod
    def broken(cls, name: str, why: str) -> "Run":
        return cls(name, wrong=(why,))


def run_tests(name: str, words: list[str], executable: str = sys.executable) -> Run:
    report = REPORTS / f"{name}.json"
    REPORTS.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    where = [] if any(".py" in word or "/" in word for word in words) else ["tests"]
    done = subprocess.run([executable, "-m", "pytest", *words, *where], env={**os.environ, "FAIRY_TEST_REPORT": str(report.resolve())}, check=False)
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if not report.exists():
        return Run.broken(name, f"pytest ended with {done.returncode} before it told anything")
    told = json.loads(report.read_text())
    wrong = list(told.pop("wrong"))
    if done.returncode not in (0, FAILED) or (done.returncode == FAILED and not told["failed"] and not wrong):
        wrong.append(f"pytest ended with {done.returncode}")
    return Run(name, **told, wrong=tuple(wrong))


def run_alone(first: Run) -> Run:
    """What failed beside others, once more, one after the other: what passes then hangs on how busy the machine is, and is told as unsteady."""
    if not 0 < len(first.failed) <= MOST_AGAIN:
        return first
    again = run_tests(f"{first.name}-alone", sorted(first.failed))
    failed = {test: told for test, told in first.failed.items() if again.wrong or test in again.failed}
    unsteady = tuple(test for test in first.failed if test not in failed)
    return replace(first, failed=failed, unsteady=unsteady, wrong=(*first.wrong, *again.wrong))
