"""Disk walk: a million files against `du`, memory, and the walk after 1 % of the folders changed."""
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Report
from gpufairy.core.disk_due import WalkPace
from gpufairy.engines.build_native import build_disk_walk

FILES, FEWER, IN_FOLDER, USERS = 1_000_000, 200_000, 100, 20
ROOM_KIB = 5  # on disk for each file, with its inode
AGED_S = 10 * 86400  # nothing was written for so long: as most of what lies in homes
TURNS = 5  # the best counts: on a machine with other work the others say more of that
GOAL_RATIO, GOAL_MEMORY_MIB = 1.1, 100


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float
    said: str


def measure(files: int | None = None) -> Report:
    """`files`: a million, or fewer where the disk has no room for them."""
    with tempfile.TemporaryDirectory(prefix="fairy-bench-disk-") as folder:
        count = files or (FILES if shutil.disk_usage(folder).free > 2 * FILES * ROOM_KIB * 1024 else FEWER)
        tree, kept = Path(folder) / "homes", Path(folder) / "kept"
        make_tree(tree, count)
        program = build_disk_walk(Path(folder) / "tools")
        walk, du = walk_of(program, tree, kept), ["du", "-s", "--block-size=1", os.fspath(tree)]
        pairs = [(ran(du), ran(walk("full"))) for _ in range(TURNS)]
        assert {run.said.split()[0] for run, _ in pairs} == {run.said.split()[1] for _, run in pairs}, "du finds another sum"
        nothing = best(lambda: ran(walk("quick")))
        change_folders(tree, count)
        changed = ran(walk("quick"))
        assert changed.said.split()[1] == ran(du).said.split()[0], "the quick walk finds another sum"
        memory = memory_mib(walk("full")), memory_mib(du)
        return Report("disk", figures(count, pairs, (nothing, changed), memory))


def figures(count: int, pairs: list[tuple[Run, Run]], again: tuple[Run, Run], memory: tuple[float, float]) -> list[Figure]:
    nothing, changed = again
    dus, walks = [du for du, _ in pairs], [walk for _, walk in pairs]
    of_du, of_walk = min(dus, key=wall), min(walks, key=wall)
    note = f"best of {TURNS}, in turns with du; CPU {of_walk.cpu_s:.2f} s, du's {of_du.cpu_s:.2f} s; names in the kernel's cache for both"
    files = f"{count:,} files in {count // IN_FOLDER:,} folders"
    return [
        Figure(f"walk of {files}", of_walk.wall_s, "s", higher_is_better=False, peer="du -s", peer_value=of_du.wall_s, note=note),
        Figure("the same, of du's time", of_walk.wall_s / of_du.wall_s, "x", goal=GOAL_RATIO, higher_is_better=False),
        Figure("the same, of du's CPU time", min(map(cpu, walks)) / min(map(cpu, dus)), "x", goal=GOAL_RATIO, higher_is_better=False),
        Figure(
            "memory at most", memory[0], "MiB", goal=GOAL_MEMORY_MIB, higher_is_better=False, peer="du -s", peer_value=memory[1],
        ),
        Figure("walk again, nothing changed", nothing.wall_s, "s", peer="in full", peer_value=of_walk.wall_s),
        Figure("walk again, 1 % of the folders changed", changed.wall_s, "s", peer="in full", peer_value=of_walk.wall_s),
        Figure("so many times faster than in full", of_walk.wall_s / changed.wall_s, "x", note="and its sum is du's"),
    ]  # fmt: skip


def wall(run: Run) -> float:
    return run.wall_s


def cpu(run: Run) -> float:
    return run.cpu_s


def best(measured: Callable[[], Run]) -> Run:
    return min((measured() for _ in range(TURNS)), key=wall)


def walk_of(program: Path, tree: Path, kept: Path) -> Callable[[str], list[str]]:
    """At our own priority, as du: at the lowest, whoever else works here would be measured."""
    pace = WalkPace()
    times = [str(round(one.total_seconds())) for one in (pace.hot, pace.old, pace.stale)]
    return lambda how: [os.fspath(program), os.fspath(tree), os.fspath(kept), "top", how, *times, "same"]


def ran(command: list[str]) -> Run:
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout as out:
        said = out.read()
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return Run(wall_s, used.ru_utime + used.ru_stime, said)


def memory_mib(command: list[str]) -> float:
    """By looking again and again while it runs: what the kernel tells of one that is over counts in the Python that it was made from."""
    most = 0
    with open(os.devnull, "wb") as nowhere, subprocess.Popen(command, stdout=nowhere) as child:
        while child.poll() is None:
            for line in Path(f"/proc/{child.pid}/status").read_text().splitlines():
                most = max(most, int(line.split()[1])) if line.startswith("VmHWM:") else most
            time.sleep(0.002)
    return most / 1024


def make_tree(top: Path, count: int) -> None:
    """Homes with projects with folders of a hundred small files each, all of them old."""
    then = time.time() - AGED_S
    for number in range(count // IN_FOLDER):
        folder = folder_of(top, number)
        folder.mkdir(parents=True)
        here = os.open(folder, os.O_RDONLY)
        for file in range(IN_FOLDER):
            made = os.open(f"file-{file}.dat", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
            os.write(made, b"x" * 100)
            os.utime(made, (then, then))
            os.close(made)
        os.close(here)
    for folder_name, _, _ in os.walk(top, topdown=False):
        os.utime(folder_name, (then, then))


def folder_of(top: Path, number: int) -> Path:
    return top / f"user{number % USERS:02}" / f"project{number // USERS % 25}" / f"run{number}"


def change_folders(top: Path, count: int) -> None:
    """A file more in every hundredth folder, and one that grows."""
    for number in range(0, count // IN_FOLDER, 100):
        (folder_of(top, number) / "new").write_bytes(b"x" * 10_000)
        with open(folder_of(top, number) / "file-0.dat", "ab") as file:
            file.write(b"x" * 10_000)
