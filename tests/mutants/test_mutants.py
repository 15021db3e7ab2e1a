"""The command that changes code on purpose: what it tells of a tiny module with one test."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.__main__ import check_equivalent, choose, find_all, read_words
from tests.mutants.operators import find_mutants, mutate
from tests.mutants.rounds import Project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A tiny module."""
LEAST = 3


def is_enough(count: int) -> bool:
    return count >= LEAST


def clip(count: int) -> int:
    if count > 9:
        return 9
    return count
'''
TEST = """from tiny.fair import clip, is_enough


def test_three_is_enough_and_two_is_not():
    assert is_enough(3)
    assert not is_enough(2)


def test_much_is_clipped():
    assert clip(20) == 9
"""
EQUIVALENT = """# count > 9 and count >= 9 give the same: 9.

fair.py clip
if count > 9:
count > 9 -> count >= 9
both give 9
"""


def made_project(folder: Path) -> Path:
    for path, text in {
        "src/tiny/__init__.py": "",
        "src/tiny/fair.py": SOURCE,
        "tests/test_fair.py": TEST,
        "tests/mutants/equivalent.txt": EQUIVALENT,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", *map(str, words)]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they load longer than the round takes
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    root = made_project(tmp_path_factory.mktemp("tiny"))
    done = run("--root", root, "--package", "tiny", "--tests", "tests", "--only", "fair", "--most", "0")
    assert (root / "src/tiny/fair.py").read_text() == SOURCE, "the working tree is never changed"
    return done


def test_a_mutant_that_a_test_notices_is_killed_and_named_with_the_test(told):
    killed = "killed fair.py:6 is_enough: count >= LEAST -> count > LEAST"
    assert f"{killed}\n    by tests/test_fair.py::test_three_is_enough_and_two_is_not\n" in told.stdout


def test_a_constant_outside_any_function_is_changed_too(told):
    assert "killed fair.py:2 : 3 -> 4\n    by tests/test_fair.py::test_three" in told.stdout


def test_a_mutant_that_no_test_notices_survives_and_its_line_is_shown(told):
    assert "survived fair.py:12 clip: return count -> return None\n    return count\n" in told.stdout


def test_an_equivalent_is_counted_apart_and_not_tried(told):
    assert "count > 9 -> count >= 9" not in told.stdout
    assert "equivalent 1" in told.stdout.splitlines()[-1]


def test_too_many_that_survive_make_the_command_fail(told):
    assert told.returncode == 1, told.stderr
    assert told.stdout.splitlines()[-1].split()[:1] == ["all"]


def drawn(seed: int) -> argparse.Namespace:
    return read_words(["--seed", str(seed), "--most", "9"])


def test_the_same_seed_draws_the_same_mutants():
    project = Project(ROOT, ROOT / "src" / "gpufairy", "gpufairy", ())
    found = find_all(project, ["core/turn"])
    once, twice, other = (choose(found, drawn(seed)) for seed in (7, 7, 8))
    assert (len(once), once == twice, once == other) == (9, True, False)


def test_every_change_of_a_real_module_can_be_made():
    file = ROOT / "src/gpufairy/core/mig_seat.py"
    source = file.read_text()
    for mutant in find_mutants(file, "core/mig_seat.py"):
        compile(mutate(source, mutant), file, "exec")


def test_what_is_called_equivalent_and_is_no_mutant_any_more_is_refused():
    mutant = find_mutants(ROOT / "src/gpufairy/core/mig_plain.py", "core/mig_plain.py")[0]
    check_equivalent({mutant.name: "why", ("core/other.py", "", "", ""): "not looked at"}, [mutant])
    with pytest.raises(SystemExit, match="is no mutant any more"):
        check_equivalent({(*mutant.name[:3], "a -> b"): "why"}, [mutant])
