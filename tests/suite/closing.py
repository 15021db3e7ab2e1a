"""The end of a run, in words: what failed, what is unsteady, what was not tested and how to get it, where the time went."""
import sys
from collections import Counter
from collections.abc import Sequence

from .allowed import UNSTEADY
from .left_out import left_out_lines, on_ci
from .runs import Run
from .stages import Stages


def close(stages: Stages, runs: Sequence[Run], *, style_ok: bool) -> int:
    """Prints it, and answers with the exit code."""
    wrong = faults(runs, style_ok=style_ok)
    left_out = {test: why for run in runs for test, why in run.left_out.items()}
    seconds = Counter[str]()
    for run in runs:
        seconds.update(run.seconds)
    for lines in (stages.close(dict(seconds)), left_out_lines(left_out), unsteady_lines(runs), wrong):
        if lines:
            print("\n" + "\n".join(lines), file=sys.stderr)
    passed, failed = sum(run.passed for run in runs), sum(len(run.failed) for run in runs)
    print(f"\n{passed} passed, {failed} failed, {len(left_out)} skipped", flush=True)
    print("green" if not wrong else "red", file=sys.stderr)
    return 1 if wrong else 0


def faults(runs: Sequence[Run], *, style_ok: bool) -> list[str]:
    wrong = [] if style_ok else ["style and types: see above"]
    for run in runs:
        wrong += [f"failed in {run.name}: {test}" for test in run.failed]
        wrong += [f"wrong with {run.name}: {words}" for words in run.wrong]
        if on_ci():
            wrong += [f"unsteady: {test}" for test in run.unsteady if test not in UNSTEADY]
    return wrong


def unsteady_lines(runs: Sequence[Run]) -> list[str]:
    """A failure where CI=true, unless it is known, with why and since when."""
    tests = [test for run in runs for test in run.unsteady]
    return [f"failed beside others and passed alone: {len(tests)}", *(f"  {test}  {UNSTEADY.get(test, '')}" for test in tests)] if tests else []
