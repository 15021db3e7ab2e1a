"""FakeMps: the program to be run, its script, programs that use its daemons, and an end to all of them."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from waits import until

HERE = Path(__file__).parent
PYTHON = (sys.executable, "-I", "-S")


class FakeMps:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.program = folder / "nvidia-cuda-mps-control"
        ask, start = (f'{" ".join(PYTHON)} {HERE}/{name}.py {folder} "$@"' for name in ("ask", "nvidia-cuda-mps-control"))
        self.program.write_text(f"#!/bin/sh\n[ $# = 0 ] && exec {ask}\nexec {start}\n")
        self.program.chmod(0o755)
        self._programs: list[FakeProgram] = []
        self._daemons: set[int] = set()
        self.script()

    def script(self, *, hangs: bool = False, knows_multiuser: bool = True, start_fails: str = "", dies_at_once: bool = False, most_clients: int = 48) -> None:
        (self._folder / "hangs").touch() if hangs else (self._folder / "hangs").unlink(missing_ok=True)
        told = {"knows_multiuser": knows_multiuser, "start_fails": start_fails, "dies_at_once": dies_at_once, "most_clients": most_clients}
        (self._folder / "script.json").write_text(json.dumps(told))

    def use(self, pipe: Path) -> "FakeProgram":
        """A program that uses the GPU; it has heard from its daemon."""
        self._programs.append(FakeProgram(pipe))
        return self._programs[-1]

    def inside(self, door: Path) -> Path:
        """The daemon's own folder, of the one that sessions get."""
        return door.with_name("pipe")

    def daemon_pid(self, pipe: Path) -> int:
        pid = int((self.inside(pipe) / "nvidia-cuda-mps-control.pid").read_text())
        self._daemons.add(pid)
        return pid

    def ask(self, pipe: Path, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(str(self.inside(pipe) / "control_privileged"))
            talk.sendall(f"UI {command}\n".encode())
            return b"".join(iter(lambda: talk.recv(4096), b"")).decode().strip()

    def run(self, pipe: Path, command: str) -> str:
        """The program itself, as anybody may run it who has that folder."""
        env = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
        return subprocess.run([self.program], input=f"{command}\n", env=env, capture_output=True, text=True, check=True).stdout

    def crash(self, pipe: Path) -> None:
        """A program's fault: all that share the GPU are hurt."""
        self.ask(pipe, "fake_fault")

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), f"the end of {pid}")

    def end(self, *folders: Path) -> None:
        for program in self._programs:
            program.end()
        for path in (path for folder in folders for path in folder.glob("**/nvidia-cuda-mps-control.pid")):
            self.daemon_pid(path.parent)
        for pid in self._daemons:
            if b"nvidia-cuda-mps-control" in command_line(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class FakeProgram:
    def __init__(self, pipe: Path) -> None:
        env = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe)}
        self._process = subprocess.Popen([*PYTHON, str(HERE / "client.py")], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.told = self.hear()

    def hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
