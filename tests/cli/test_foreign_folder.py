"""The command from a clone, called in a folder that is somebody else's: no file there is taken for a part of it."""
import re
import subprocess
import sys
from pathlib import Path

CLONE = Path(__file__).parents[2]


def test_a_module_in_the_folder_one_stands_in_is_not_run(tmp_path):
    (tmp_path / "copy.py").write_text("raise SystemExit('this is not yours to run')\n")
    called = re.search(r'exec "\$env/bin/python" (?P<words>.*) "\$@"', (CLONE / "fairy").read_text())
    assert called is not None
    done = subprocess.run([sys.executable, *called["words"].split(), "--version"], cwd=tmp_path, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(CLONE / "src")})
    assert (done.returncode, done.stderr) == (0, "")


def test_no_program_of_ours_is_started_so_that_it_would_import_what_lies_around():
    """-I, or -P where our own PYTHONPATH is wanted. Apps of sessions are the user's own to start, in the user's own Python."""
    started = re.compile(r'(?P<before>"-[A-Za-z]", )?"-m", "[a-z]')
    wrong = [
        f"{path.name}: {line.strip()}"
        for path in sorted((CLONE / "src" / "gpufairy").rglob("*.py"))
        for line in path.read_text().splitlines()
        if (found := started.search(line)) is not None and found["before"] not in ('"-I", ', '"-P", ')
    ]
    assert wrong == []
