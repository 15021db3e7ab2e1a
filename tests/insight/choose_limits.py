"""Chooses limits on the first half of the labelled set: `python tests/insight/choose_limits.py` says for each which values do as well.

One limit after the other: of the values with which at least 98 of 100 pieces of advice are right, that with the most recall.
"""
import sys
from dataclasses import fields, replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")]

from judging import judge  # noqa: E402
from labelled import CHOSEN_ON, labelled  # noqa: E402

from gpufairy.core.insight_limits import LIMITS, Limits  # noqa: E402

FACTORS = (0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
LEAST = 0.98
EACH = 30


def main() -> None:
    cases = list(labelled(CHOSEN_ON, EACH))
    begin = judge(cases)
    print(f"as they are: precision {begin.precision:.3f}, recall {begin.recall:.3f}")
    for field in fields(Limits):
        usual = getattr(LIMITS, field.name)
        tried = {round(usual * factor, 6): judge(cases, replace(LIMITS, **{field.name: usual * factor})) for factor in FACTORS}
        print(f"{field.name:<22}", "  ".join(f"{value:g}: {one.precision:.3f}/{one.recall:.3f}" for value, one in tried.items()))
        good = {value: one.recall for value, one in tried.items() if one.precision >= LEAST}
        best = max(good, key=good.__getitem__, default=usual)
        if good.get(best, 0) > good.get(usual, 0) + 0.005:
            print(f"{'':<22} {best:g} would find more")


if __name__ == "__main__":
    main()
