"""The table of faults names tests that are there, and the manual's page says what the table says."""
import ast
from pathlib import Path

import pytest
from table import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what-happens-when.md"


def functions_of(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_test_that_the_table_names_is_there(fault):
    assert fault.shown_by
    for named in fault.shown_by:
        file, _, test = named.partition("::")
        assert (ROOT / file).is_file(), named
        assert not test or test in functions_of(ROOT / file), named


def test_the_page_of_the_manual_has_every_fault_with_what_is_seen():
    page = PAGE.read_text()
    for fault in FAULTS:
        assert fault.seen in page, fault.name
        for named in fault.shown_by:
            assert named.rpartition("::")[2].removeprefix("tests/") in page or named in page, named


def test_names_are_said_once():
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names))
