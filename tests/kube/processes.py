"""Processes of a cluster: each in a session of its own with a log and a number in the cluster's folder, so that whoever comes later can end it."""
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from waits import until

START_S, END_S = 90.0, 10.0


def run(folder: Path, program: Path, *words: str, env: dict[str, str] | None = None) -> None:
    """Nobody's child: it outlives the test process that started it."""
    with (folder / f"{program.name}.log").open("ab") as log:
        begin = ["setsid", "--fork", "sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / f"{program.name}.pid"), str(program)]
        subprocess.run([*begin, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})}, cwd=folder, check=True)


def wait(folder: Path, name: str, look: Callable[[], object], limit_s: float = START_S) -> None:
    def looked() -> bool:
        with contextlib.suppress(OSError):
            return bool(look())
        return False

    try:
        until(looked, f"{name} to answer", limit_s)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n{(folder / f'{name}.log').read_text()[-3000:]}") from None


def stop(folder: Path, name: str) -> None:
    """By its number, if that is still its own."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((folder / f"{name}.pid").read_text())
        for number in (signal.SIGTERM, signal.SIGKILL):
            if is_ours(pid, folder):
                os.kill(pid, number)
                with contextlib.suppress(AssertionError):
                    until(lambda: not is_ours(pid, folder), f"{name} to end", END_S)


def kill_and_start(folder: Path, name: str) -> None:
    """As it was, on the same ports."""
    pid = int((folder / f"{name}.pid").read_text())
    program, *words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid), f"{name} to end", END_S)
    run(folder, Path(program), *words)


def is_over(pid: int) -> bool:
    """Its last thread closes its ports, well after its command line is gone."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            found.append(path.read_text().rpartition(")")[2].split()[0])
    return set(found) <= {"Z", "X"}


def runs(folder: Path, name: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return is_ours(int((folder / f"{name}.pid").read_text()), folder)
    return False


def is_ours(pid: int, folder: Path) -> bool:
    """A process that has ended has no command line, also before somebody asks how it ended."""
    try:
        return f"{folder}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
