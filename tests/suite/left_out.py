"""What was not tested, in words."""
import os
from collections import Counter, defaultdict

from .allowed import lack_of


def on_ci() -> bool:
    """This machine is there for testing, and has all that can be installed."""
    return os.environ.get("CI") == "true"


def left_out_lines(left_out: dict[str, str]) -> list[str]:
    """What was not tested, why, and how to get it, most first."""
    if not left_out:
        return []
    by_reason: dict[str, list[str]] = defaultdict(list)
    for test, reason in left_out.items():
        lack = lack_of(reason)
        by_reason[f"{lack.words}; to have it: {lack.how}" if lack else reason].append(test)
    lines = [f"not tested: {len(left_out)}"]
    for reason, tests in sorted(by_reason.items(), key=lambda one: (-len(one[1]), one[0])):
        files = Counter(test.partition("::")[0].removeprefix("tests/") for test in tests)
        lines += [f"  {len(tests):4}  {reason}", "        " + ", ".join(f"{file} ({count})" for file, count in sorted(files.items()))]
    return lines
