"""Each promise about who must not get in is shown by tests that are there; and every attack is for one of the promises."""
import ast
from functools import cache
from pathlib import Path

import pytest
from promises import PROMISES

ROOT = Path(__file__).parents[2]
BY_THEMSELVES = {"test_promises.py"}


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_shown_by_tests_that_exist(promise):
    assert PROMISES[promise]
    for named in PROMISES[promise]:
        file, _, test = named.partition("::")
        assert (ROOT / file).is_file(), file
        assert test in named_in(file), named


def test_every_file_of_attacks_is_named_by_a_promise():
    named = {Path(one.partition("::")[0]).name for tests in PROMISES.values() for one in tests if one.startswith("tests/attacks/")}
    assert named == {path.name for path in Path(__file__).parent.glob("test_*.py")} - BY_THEMSELVES


def test_the_page_of_the_manual_lists_every_promise_with_its_tests():
    page = (ROOT / "docs" / "what-happens-when.md").read_text()
    for promise, tests in PROMISES.items():
        assert f"| {promise} |" in page, promise
        for named in tests:
            assert named.rpartition("::")[2] in page, named
