"""A child process that has nvidia-ml-py on the fake library, and evaluates what a test asks. pynvml loads NVML once a process."""
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fake_nvml.build import FakeNvml
from fake_nvml.machine import FakeMachine

PATIENCE_S = 20.0  # far more than any answer takes
CHILD = '''
import json, sys, threading
import pynvml
from pynvml import *

def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "_fields_"):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    return plain(vars(value)) if type(value).__name__ == "nvmlFriendlyObject" else str(type(value).__name__)

def answer(line, names):
    order, text = json.loads(line)
    try:
        if order == "tell":
            return {"answer": plain(eval(text, names))}
        exec(text, names)
        return {"answer": None}
    except NVMLError as error:
        return {"error": error.value}

names = dict(globals())
for line in sys.stdin:
    print(json.dumps(answer(line, names)), flush=True)
'''


class NvmlFailed(Exception):
    """The child's call ended in an NVMLError with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML answered {code}")
        self.code = code


class Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._child = subprocess.Popen([sys.executable, "-c", CHILD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, expression: str) -> Any:
        """The value of a Python expression in the child; NvmlFailed if NVML refused."""
        return self._ask("tell", expression)

    def do(self, statements: str) -> None:
        self._ask("do", statements)

    def code(self, expression: str) -> int:
        """What NVML answered: 0 for success."""
        try:
            self.tell(expression)
        except NvmlFailed as failed:
            return failed.code
        return 0

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def _ask(self, order: str, text: str) -> Any:
        self._child.stdin.write(json.dumps([order, text]) + "\n")
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], PATIENCE_S)
        assert ready, f"the child has not answered {text!r} within {PATIENCE_S} s"
        said = json.loads(self._child.stdout.readline() or '{"answer": "the child ended"}')
        if "error" in said:
            raise NvmlFailed(said["error"])
        return said["answer"]


@contextmanager
def readers(fake: FakeNvml) -> Iterator[Callable[[FakeMachine], Reader]]:
    """Opens readers of a machine, each with `gpu` as its first GPU, and ends them all."""
    opened: list[Reader] = []

    def open_reader(machine: FakeMachine) -> Reader:
        fake.write(machine)
        opened.append(Reader({**os.environ, **fake.env}))
        opened[-1].do("nvmlInit()\nif nvmlDeviceGetCount(): gpu = nvmlDeviceGetHandleByIndex(0)")
        return opened[-1]

    try:
        yield open_reader
    finally:
        for reader in opened:
            reader.close()
