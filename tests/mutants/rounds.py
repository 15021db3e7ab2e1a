"""Rounds: tests are collected once; a mutant is tried in a fork of that process, by the tests that call it.

What is outside any function (a default, a table) is put in place in the fork too. One that survives there is
tried once more in a process that imports everything anew: what others made of it on import is old there.
"""

import ast
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import pytest
from tests.mutants.operators import Mutant, mutate
from tests.mutants.swap import swap_functions, swap_values

MOST_TESTS_S = 10.0  # of a CPU: of the tests that call a mutant, the quick ones first, so much at most
FLOOR_S, SLOWER = 30.0, 8  # after so long, and so many times what its tests take, it is taken to hang
MARKS = "not system and not quiet"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", MARKS, "-p", "tests.mutants.pace")
HANGS, DIED, UNLOADED = "it never ended", "it died", "it cannot be loaded"
SAID, FAULT = b"said:", b"fault:"
Function = tuple[str, str]  # a file, and the outermost function in it


@dataclass(frozen=True)
class Project:
    root: Path  # a copy: mutants that are tried anew are written to it
    sources: Path  # in the root
    package: str
    tests: tuple[str, ...]

    def file_of(self, mutant: Mutant) -> Path:
        return self.sources / mutant.module

    def module_of(self, mutant: Mutant) -> str:
        return ".".join((self.package, *Path(mutant.module).with_suffix("").parts))


@dataclass
class Calls:
    """Which tests call which function, and how much of a CPU's time each takes."""

    tests: dict[Function, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def of(self, file: str, where: str) -> set[str]:
        """Of what is in no function: all that call anything in its file; of a file without functions, all there are."""
        if where:
            return self.tests.get((file, where), set())
        near = {test for (other, _), tests in self.tests.items() if other == file for test in tests}
        return near or self.seconds.keys() - set(self.failed)


class Round:
    """A plugin of pytest that takes the place of its loop."""

    def __init__(self, project: Project, mutants: list[Mutant], tell: Callable[[Mutant, str], None]) -> None:
        self._project, self._mutants, self._tell = project, mutants, tell
        self.calls = Calls()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} test files cannot be collected")
        self._items = {item.nodeid: item for item in session.items}
        files = {str(self._project.file_of(mutant)) for mutant in self._mutants}
        said = in_a_fork(lambda: pickle.dumps(self._count_calls(files)), limit_s=None)
        self.calls = pickle.loads(said or b"")
        for mutant in self._mutants:
            self._tell(mutant, self._try(mutant))
        return True

    def _count_calls(self, files: set[str]) -> Calls:
        calls, seen = Calls(), set[CodeType]()

        def note(frame: FrameType, event: str, arg: object) -> None:
            seen.add(frame.f_code)

        for item, after in with_next(list(self._items.values())):
            seen.clear()
            began = time.process_time()
            sys.settrace(note)
            good = passes(item, after)
            sys.settrace(None)
            calls.seconds[item.nodeid] = time.process_time() - began
            if not good:
                calls.failed.append(item.nodeid)
                continue
            for code in seen:
                if code.co_filename in files:
                    calls.tests[code.co_filename, code.co_qualname.split(".<locals>")[0]].add(item.nodeid)
        return calls

    def _try(self, mutant: Mutant) -> str:
        """Which test notices it; empty: none does."""
        file = self._project.file_of(mutant)
        tests = self._nearest_first(self.calls.of(str(file), mutant.where), Path(mutant.module).stem)
        tree = mutate(file.read_text(), mutant)
        limit_s = FLOOR_S + SLOWER * sum(self.calls.seconds[test] for test in tests)
        if mutant.where and not tests:
            return ""
        noticed = in_a_fork(lambda: self._first_failure(tree, mutant, tests), limit_s).decode()
        return noticed if noticed or mutant.where else self._try_anew(file, tree, tests, 60 + limit_s)

    def _nearest_first(self, tests: set[str], stem: str) -> list[str]:
        """The quick ones; those in the file of its name five times as eagerly."""

        def rank(test: str) -> float:
            near = f"test_{stem}" in test.split("::", maxsplit=1)[0]
            return self.calls.seconds[test] / (5 if near else 1)

        chosen, total_s = [], 0.0
        for test in sorted(tests, key=rank):
            total_s += self.calls.seconds[test]
            if total_s > MOST_TESTS_S:
                break
            chosen.append(test)
        return chosen

    def _first_failure(self, tree: ast.Module, mutant: Mutant, tests: list[str]) -> bytes:
        if mutant.where:
            swap_functions(tree, str(self._project.file_of(mutant)))
        else:
            try:
                known = swap_values(tree, self._project.module_of(mutant), mutant.lineno)
            except Exception:  # noqa: BLE001 - whatever a changed line may raise, nobody could import it
                return UNLOADED.encode()
            if not known:
                return b""
        for item, after in with_next([self._items[test] for test in tests]):
            if not passes(item, after):
                return item.nodeid.encode()
        return b""

    def _try_anew(self, file: Path, tree: ast.Module, tests: list[str], limit_s: float) -> str:
        source = file.read_text()
        names = list(dict.fromkeys(test.split("::")[0] for test in tests)) or list(self._project.tests)
        command = [sys.executable, "-m", "pytest", "-x", *OPTIONS, *names]
        file.write_text(ast.unparse(tree))
        try:
            root = self._project.root
            done = subprocess.run(command, cwd=root, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return HANGS
        finally:
            file.write_text(source)
        return f"{names[0]} …" if done.returncode else ""


def with_next(items: list[pytest.Item]) -> list[tuple[pytest.Item, pytest.Item | None]]:
    return list(zip(items, [*items[1:], None], strict=False))


def passes(item: pytest.Item, after: pytest.Item | None) -> bool:
    before = item.session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
    return item.session.testsfailed == before


def in_a_fork(work: Callable[[], bytes], limit_s: float | None) -> bytes:
    """What the work says, or that it died. One that is late is ended with all that it started."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        with os.fdopen(writes, "wb") as out:
            out.write(said_by(work))
        os._exit(0)
    os.close(writes)
    said = None
    try:
        said = read_until(reads, limit_s)
    finally:
        os.close(reads)
        if said is None:  # late, or somebody wants no more of this
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if said is not None and said.startswith(FAULT):
        raise RuntimeError(said.removeprefix(FAULT).decode())
    return HANGS.encode() if said is None else said.removeprefix(SAID) if said else DIED.encode()


def said_by(work: Callable[[], bytes]) -> bytes:
    """A fork says something in any case, so that one that says nothing has died."""
    try:
        return SAID + work()
    except BaseException:  # noqa: BLE001 - of our own making: it is raised again where it can be read
        return FAULT + traceback.format_exc().encode()


def read_until(reads: int, limit_s: float | None) -> bytes | None:
    deadline, said = None if limit_s is None else time.monotonic() + limit_s, b""
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reads], [], [], left)[0]:
            return None
        more = os.read(reads, 1 << 16)
        if not more:
            return said
        said += more
