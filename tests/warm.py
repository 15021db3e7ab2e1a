"""Servers that start warm: forked from a process that has loaded gpufairy already, one for each process of the tests.

Loading takes a server two seconds of CPU, and the tests start some hundreds, most of which die at once. What runs after the fork is what
`python -m gpufairy up` runs: the same words, variables, folder and descriptors, in a process of its own. Two things are not, and who looks at
them starts cold: `/proc/PID/cmdline` and `environ` are the template's, and memory is shared with it. What the loader of programs reads
(LD_PRELOAD and its like) is read once, so whoever sets it gets a cold one by itself. Tests that promise a time start cold, and so do all
benchmarks.
"""
import contextlib
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
LOADED = ("gpufairy.cli.entry", "gpufairy.main.up", "gpufairy.main.foreground", "gpufairy.store.steps")
STATUS = struct.Struct("i")
LARGEST = 2**20  # of one order: words and variables


class Forked:
    """A server that was forked from the template: what tests ask of a `subprocess.Popen`."""

    def __init__(self, pid: int, status: int, stdout: IO[str]) -> None:
        self.pid, self.stdout, self.returncode = pid, stdout, None
        self._status = status  # what it ended with comes here

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"server {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, limit_s: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(limit_s):
                    return None
            told = os.read(self._status, STATUS.size)
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(STATUS.unpack(told)[0]) if told else -signal.SIGKILL
        return self.returncode


class Template:
    """The process that is forked. Started when the first server is."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self._line is not None and self._process is not None:
            self._line.close()
            self._process.wait()

    def spawn(self, command: list[str], *, env: dict[str, str], stdout: int, stderr: IO[bytes], text: bool) -> subprocess.Popen[str] | Forked:
        """As `subprocess.Popen`, of a Python that runs gpufairy."""
        if any(name.startswith("LD_") for name in env):
            return subprocess.Popen(command, env=env, stdout=stdout, stderr=stderr, text=text)
        reading, writing = os.pipe()
        status, ends = os.pipe()
        order = json.dumps({"words": command[1:], "env": env, "folder": os.getcwd()}).encode()
        line = self._open()
        socket.send_fds(line, [order], [writing, stderr.fileno(), ends])
        os.close(writing)
        os.close(ends)
        return Forked(int(line.recv(64)), status, os.fdopen(reading))

    def _open(self) -> socket.socket:
        if self._line is None:
            self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            env = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRY_", "XDG_", "LD_"))}
            env |= {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}  # a process with threads is not forked
            with theirs:
                number = theirs.fileno()
                self._process = subprocess.Popen([sys.executable, __file__, str(number)], env=env, pass_fds=(number,), stdin=subprocess.DEVNULL)
        return self._line


def serve(line: socket.socket) -> None:
    """Forks for each order, and tells how each fork ended; ends with whoever asks."""
    gc.disable()
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    alarm, rings = socket.socketpair()
    alarm.setblocking(False)
    rings.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(rings.fileno())
    ends: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(alarm, selectors.EVENT_READ)
        while True:
            asked = {key.fileobj for key, _ in selector.select()}
            if alarm in asked:
                alarm.recv(LARGEST)
                tell_ends(ends)
            if line in asked:
                order, (stdout, stderr, end), _, _ = receive(line)
                pid = os.fork()
                if pid == 0:
                    break
                ends[pid] = end
                os.close(stdout)
                os.close(stderr)
                line.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for unused in (line, alarm, rings):
        unused.close()
    for unused in (end, *ends.values()):
        os.close(unused)
    become(json.loads(order), stdout, stderr)


def receive(line: socket.socket) -> tuple[bytes, list[int], int, object]:
    received = socket.recv_fds(line, LARGEST, 3)
    if not received[0]:
        os._exit(0)  # nobody is there to ask for more
    return received


def tell_ends(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(ends[pid], STATUS.pack(status))
        os.close(ends.pop(pid))


def become(order: dict[str, object], stdout: int, stderr: int) -> None:
    """What a new Python would be that was started so."""
    for given, number in ((stdout, 1), (stderr, 2)):
        os.dup2(given, number)
        os.close(given)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process lives
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["folder"])
    random.seed()
    words = order["words"]
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(words[0]).parent))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
