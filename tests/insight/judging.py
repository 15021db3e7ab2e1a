"""How right the rules are on labelled sessions: precision over all that was said, recall rule by rule."""
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from labelled import Labelled

from gpufairy.core.insight import Code, Pace
from gpufairy.core.insight_limits import LIMITS, Limits
from gpufairy.core.insight_rules import advice_of_all


@dataclass(frozen=True)
class Judgement:
    right: Counter[Code]
    wrong: Counter[Code]
    missed: Counter[Code]
    mistakes: tuple[tuple[str, Code], ...]  # story and what was wrongly said of it

    @property
    def precision(self) -> float:
        said = self.right.total() + self.wrong.total()
        return self.right.total() / said if said else 1.0

    def precision_of(self, code: Code) -> float:
        said = self.right[code] + self.wrong[code]
        return self.right[code] / said if said else 1.0

    def recall_of(self, code: Code) -> float:
        there = self.right[code] + self.missed[code]
        return self.right[code] / there if there else 1.0

    @property
    def recall(self) -> float:
        there = self.right.total() + self.missed.total()
        return self.right.total() / there if there else 1.0

    def words(self) -> str:
        rows = [f"{code:<16} precision {self.precision_of(code):6.1%}   recall {self.recall_of(code):6.1%}" for code in Code]
        return "\n".join([*rows, f"{'all':<16} precision {self.precision:6.1%}   recall {self.recall:6.1%}"])


def judge(cases: Sequence[Labelled], limits: Limits = LIMITS) -> Judgement:
    right, wrong, missed = Counter[Code](), Counter[Code](), Counter[Code]()
    mistakes = []
    by_pace: dict[Pace, list[Labelled]] = {}
    for case in cases:
        by_pace.setdefault(case.pace, []).append(case)
    for pace, of_it in by_pace.items():
        for case, found in zip(of_it, advice_of_all([case.look for case in of_it], pace, limits), strict=True):
            said = {one.code for one in found}
            right.update(said & case.wanted)
            wrong.update(said - case.wanted - case.may)
            missed.update(case.wanted - said)
            mistakes += [(case.story, code) for code in said - case.wanted - case.may]
    return Judgement(right, wrong, missed, tuple(mistakes))
