"""The table of failpoints: each name is passed by the code and reached by a scene, none is used undeclared, and nobody but the tests can arm one."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kill_points import TABLES

import gpufairy
from gpufairy.core import failpoints

SOURCE = Path(gpufairy.__file__).parent


def passed_in_source() -> list[str]:
    """What `failpoints.passing` is called with; the names of transitions are made from events' own, in the table's module alone."""
    texts = [text for path in SOURCE.rglob("*.py") if "failpoints" in (text := path.read_text())]
    calls = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    passing = [node for node in calls if ast.unparse(node.func) == "failpoints.passing"]
    assert all(isinstance(node.args[0], ast.Constant) for node in passing), "a failpoint's name is written out where it is passed"
    return [node.args[0].value for node in passing]


def test_every_name_that_is_passed_is_declared_and_passed_in_one_place():
    names = passed_in_source()
    assert len(names) == len(set(names))
    assert set(names) == failpoints.CALLS | failpoints.STORE


def test_every_declared_point_is_reached_by_a_scene():
    assert {point for table in TABLES.values() for point in table} == failpoints.POINTS


def test_nothing_in_the_product_arms_a_point():
    for path in SOURCE.rglob("*.py"):
        if path.name != "failpoints.py":
            assert "on_pass" not in path.read_text(), f"{path} arms failpoints"


@pytest.mark.slow
def test_the_shipped_start_refuses_the_variable_in_words(tmp_path):
    armed = tmp_path / "armed"
    armed.write_text("before_commit 1")
    env = {**os.environ, failpoints.VARIABLE: str(armed), "PYTHONPATH": str(SOURCE.parent), "XDG_CONFIG_HOME": str(tmp_path)}
    for more in ((), ("-d",)):
        command = [sys.executable, "-m", "gpufairy", "up", "--engine", "process", "--data", str(tmp_path / "data"), *more]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert "FAIRY_FAILPOINT is set" in done.stderr
        assert "unset FAIRY_FAILPOINT" in done.stderr
    assert not (tmp_path / "data").exists()
    assert armed.exists()


def test_passing_one_costs_nothing_when_nobody_is_there():
    assert failpoints.on_pass is None
    assert failpoints.passing("before_commit") is None
