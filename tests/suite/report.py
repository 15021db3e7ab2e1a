"""What a run of pytest tells of itself: how long each file took, what was left out and why, what failed. A plugin, loaded by conftest.py.

On a machine that is there for testing (CI=true) a test that is left out fails, unless its reason stands in allowed.py.
"""
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.allowed import LACKS, lack_of
from suite.left_out import left_out_lines, on_ci

REPORT = "FAIRY_TEST_REPORT"  # the file that the run is told to, for whoever started it


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Of one that was left out: what `pytest.skip` was told."""
    words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return words.removeprefix("Skipped: ")


def is_left_out(report: pytest.TestReport | pytest.CollectReport) -> bool:
    return report.skipped and not hasattr(report, "wasxfail")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if on_ci() and is_left_out(report) and lack_of(reason_of(report)) is None:
        report.outcome = "failed"
        report.longrepr = f"left out, which no machine of CI may: {reason_of(report)} (what may be: tests/suite/allowed.py)"
    return report


class RunReport:
    """Gathers what comes in; in the process that the user sees, where tests run in several."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)  # by file
        self.left_out: dict[str, str] = {}  # by test: why
        self.failed: dict[str, str] = {}
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration
        if is_left_out(report):
            self.left_out[report.nodeid] = reason_of(report)
        elif report.failed:
            self.failed[report.nodeid] = str(report.longrepr)[-2000:]
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = str(report.longrepr)[-2000:]
        elif report.skipped:
            self.left_out[report.nodeid] = reason_of(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if on_ci() and (self.too_many() or self.whole_files()) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if path := os.environ.get(REPORT):
            Path(path).write_text(json.dumps(self.as_document(), indent=1))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if REPORT in os.environ:
            return  # whoever started this run tells it with all others
        for line in left_out_lines(self.left_out):
            terminalreporter.write_line(line)

    def too_many(self) -> list[str]:
        counts = Counter(lack_of(reason) for reason in self.left_out.values())
        return [f"{counts[lack]} tests are left out for want of: {lack.words}; {lack.most} are known" for lack in LACKS if counts[lack] > lack.most]

    def whole_files(self) -> list[str]:
        """Left out before a test of them was looked at."""
        return [f"{test}: {why}" for test, why in self.left_out.items() if "::" not in test and lack_of(why) is None]

    def as_document(self) -> dict[str, object]:
        return {
            "passed": self.passed, "failed": self.failed, "left_out": self.left_out, "seconds": dict(self.seconds),
            "wrong": [*self.too_many(), *self.whole_files()],
        }  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunReport(), "run_report")
