"""The runs of the tests themselves: what is left out is told, what may not be fails, what only fails in company is found, what was found is printed."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite.allowed import LACKS
from suite.closing import faults
from suite.explore import cases_in
from suite.left_out import left_out_lines
from suite.report import REPORT
from suite.runs import Run, run_alone

pytestmark = pytest.mark.slow  # it starts some Pythons

ROOT = Path(__file__).parents[2]
KNOWN = next(lack for lack in LACKS if lack.most == 1)


def run_pytest(folder: Path, text: str, *, ci: bool = False, words: tuple[str, ...] = ()) -> tuple[subprocess.CompletedProcess[str], dict]:
    """These tests, with nothing of the suite but the plugin; and what it told."""
    (folder / "test_one.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "CI": "true" if ci else "", REPORT: str(folder / "report.json")}
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "suite.report", *words, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=folder)
    return done, json.loads((folder / "report.json").read_text())


def skipping(reason: str, times: int = 1) -> str:
    return "import pytest\n" + "".join(f"def test_{number}():\n    pytest.skip({reason!r})\n" for number in range(times))


def test_what_is_left_out_is_told_with_its_reason(tmp_path):
    done, told = run_pytest(tmp_path, skipping("no cobbler: apt-get install cobbler"))
    assert done.returncode == 0
    assert told["left_out"] == {"test_one.py::test_0": "no cobbler: apt-get install cobbler"}


def test_on_ci_a_part_that_is_missing_is_a_failure(tmp_path):
    done, told = run_pytest(tmp_path, skipping("no cobbler: apt-get install cobbler"), ci=True)
    assert done.returncode == 1
    assert list(told["failed"]) == ["test_one.py::test_0"]
    assert "no cobbler: apt-get install cobbler" in done.stdout


def test_on_ci_a_test_that_is_marked_to_be_left_out_is_a_failure_too(tmp_path):
    done, _ = run_pytest(tmp_path, "import pytest\n@pytest.mark.skipif(True, reason='not root')\ndef test_a(): pass\n", ci=True)
    assert done.returncode == 1


def test_on_ci_a_known_lack_may_be_and_not_more_often_than_is_known(tmp_path):
    done, told = run_pytest(tmp_path, skipping(KNOWN.words, KNOWN.most), ci=True)
    assert (done.returncode, told["wrong"]) == (0, [])
    done, told = run_pytest(tmp_path, skipping(KNOWN.words, KNOWN.most + 1), ci=True)
    assert done.returncode == 1
    assert told["wrong"] == [f"{KNOWN.most + 1} tests are left out for want of: {KNOWN.words}; {KNOWN.most} are known"]


def test_on_ci_a_whole_file_may_not_be_left_out_either(tmp_path):
    done, told = run_pytest(tmp_path, "import pytest\npytest.skip('no moon', allow_module_level=True)\n", ci=True)
    assert done.returncode != 0
    assert told["wrong"] == ["test_one.py: no moon"]


def test_with_several_processes_the_same_is_told(tmp_path):
    done, told = run_pytest(tmp_path, skipping("no cobbler") + "def test_b(): pass\n", words=("-n", "2"))
    assert done.returncode == 0
    assert (told["passed"], list(told["left_out"].values())) == (1, ["no cobbler"])
    assert set(told["seconds"]) == {"test_one.py"}


def test_the_closing_words_say_how_to_get_what_was_missing():
    lines = left_out_lines({"tests/a/test_x.py::one": KNOWN.words, "tests/a/test_x.py::two": "no ssh: apt-get install openssh-client"})
    assert lines == [
        "not tested: 2",
        f"     1  {KNOWN.words}; to have it: {KNOWN.how}", "        a/test_x.py (1)",
        "     1  no ssh: apt-get install openssh-client", "        a/test_x.py (1)",
    ]  # fmt: skip


def test_a_found_case_is_ready_to_paste():
    printed = "E   AssertionError\nE   Failing test case: test_a_thing(\nE       drawn=[(\nE            201,\nE        )],\nE       which=0,\nE   )\n"
    assert cases_in(printed) == [("test_a_thing", "@example(\n    drawn=[(\n         201,\n     )],\n    which=0,\n)")]


@pytest.mark.parametrize("words", [["nonsense"], ["fast", "now"], ["all", "tests/core"]])
def test_words_that_mean_nothing_are_refused_in_one_sentence(words):
    done = subprocess.run([sys.executable, "-m", "tests.suite", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert words[-1] in done.stderr


def test_what_passes_alone_is_unsteady_and_on_ci_a_failure(tmp_path, monkeypatch):
    (tmp_path / "test_one.py").write_text("def test_busy(): pass\ndef test_broken(): assert False\n")
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['suite.report']\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    run = run_alone(Run("scene", failed={"test_one.py::test_busy": "", "test_one.py::test_broken": ""}))
    assert (run.unsteady, list(run.failed)) == (("test_one.py::test_busy",), ["test_one.py::test_broken"])
    monkeypatch.delenv("CI", raising=False)
    assert faults([run], style_ok=True) == ["failed in scene: test_one.py::test_broken"]
    monkeypatch.setenv("CI", "true")
    assert faults([run], style_ok=True) == ["failed in scene: test_one.py::test_broken", "unsteady: test_one.py::test_busy"]
