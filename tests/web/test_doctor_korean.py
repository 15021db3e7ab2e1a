"""What the doctor says, found in its source: each sentence, question and reason is there in Korean."""
import ast
from collections.abc import Iterator

import pytest
from sentences_in_source import SRC, called, calls, read
from test_sentences import is_told

from gpufairy.core.doctor_versions import RUNC_HOLES, TOOLKIT_HOLES, holes_words

JUDGES = ("ok", "warn", "bad", "unknown", "skipped", "judged")
SAID = {**dict.fromkeys(JUDGES, (0,)), "Check": (1, 2), "path_of": (1,), "Judged": (1,)}  # which of what is given are sentences
WITH_HOLES = ("runc {} has {}: ", "toolkit {} has {}: ")  # what they mean stands in doctor_versions.py
PROPER = {"Python", "Pod Security"}  # names that are the same in every tongue


def sentences() -> Iterator[str]:
    for file in sorted((SRC / "gpufairy" / "core").glob("doctor_*.py")):
        source = read(file)
        for call, function in calls(source.tree, None):
            for place in SAID.get(called(call), ()):
                if place < len(call.args):
                    yield from source.texts(call.args[place], function) or ()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple) and isinstance(node.value.elts[0], ast.Constant):
                yield str(node.value.elts[0].value)


@pytest.mark.slow
def test_everything_that_the_doctor_says_is_there_in_korean():
    found = {text for text in sentences() if " " in text and text not in PROPER and not text.startswith(("Python {}.{}", *WITH_HOLES))}
    assert len(found) > 250
    assert sorted(text for text in found if not is_told(text)) == []


@pytest.mark.slow
@pytest.mark.parametrize("holes", [RUNC_HOLES, RUNC_HOLES[1:], TOOLKIT_HOLES, TOOLKIT_HOLES[1:]])
def test_what_a_hole_means_is_there_in_korean(holes):
    assert all(is_told(f"{program}ax has {holes_words(holes)}") for program in ("runc ", "toolkit "))
