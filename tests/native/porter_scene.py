"""A porter in namespaces of its own, as in a container: number 1 of its processes, with a network of its own, under a plain uid."""
import asyncio
import contextlib
import os
import signal
import socket
import struct
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpufairy.engines.contract import Command, Door, DoorKind
from gpufairy.engines.network_namespace import connect_inside
from gpufairy.engines.porter import open_in
from gpufairy.engines.proc import stat_of

PATIENCE_S = 10
UID = 12345  # of nobody on this machine
# Loopback is brought up by the same ioctl that a container runtime uses, and a devpts of its own is mounted, as in any container.
BEGIN = """
import fcntl, os, socket, struct, subprocess, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1))
for words in (["-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", "/dev/pts"], ["--bind", "/dev/pts/ptmx", "/dev/ptmx"]):
    subprocess.run(["mount", *words], check=True)
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Porter:
    pid: int  # as this machine counts it
    process: asyncio.subprocess.Process
    folder: Path
    door: Door

    async def run(self, *argv: str, **more: object) -> tuple[int, bytes]:
        """Its exit code, and all that it wrote."""
        stream = await open_in(self.door, Command(argv, **more))
        try:
            out = await read_to_end(stream.stdout)
            return await asyncio.wait_for(stream.wait(), PATIENCE_S), out
        finally:
            await stream.close()

    async def raw(self) -> socket.socket:
        return await connect_inside(self.door.pid, self.door.birth_ticks)

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)

    def inside(self) -> list[str]:
        """The states of all processes in there but the porter."""
        return [found.state for pid in self.pids() if (found := stat_of(pid)) is not None]

    def command_lines(self) -> list[bytes]:
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        return found

    def pids(self) -> list[int]:
        here, found = os.readlink(f"/proc/{self.pid}/ns/pid"), []
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(name) != self.pid and os.readlink(f"/proc/{name}/ns/pid") == here:
                    found.append(int(name))
        return found

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextlib.asynccontextmanager
async def a_porter(binary: Path, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> AsyncIterator[Porter]:
    begin = ["python3", "-c", BEGIN, str(UID), str(binary), *arguments]
    process = await asyncio.create_subprocess_exec(
        "unshare", "-f", "--kill-child", "-p", "-n", "-m", "--mount-proc", "--propagation", "private", *begin, cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)} | (env or {}), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    pid = 0
    try:
        pid = await until(lambda: first_process(process.pid, binary), process)
        found = stat_of(pid)
        door = Door(DoorKind.PORTER, str(folder), "/bin/sh", (), pid, found.start_ticks if found else 0)
        yield Porter(pid, process, folder, door)
    finally:
        if process.returncode is None:
            # `--kill-child` alone is not enough: the kernel forgets it when the uid changes.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid or process.pid, signal.SIGKILL)
        await process.communicate()


def first_process(unshare: int, binary: Path) -> int | None:
    """The child of `unshare`, once it has become the porter and bound its door (which is the first thing it does)."""
    try:
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        if not children or os.readlink(f"/proc/{children[0]}/exe") != str(binary):
            return None
        return int(children[0]) if "@gpufairy-porter" in Path(f"/proc/{children[0]}/net/unix").read_text() else None
    except OSError:
        return None


async def until(look: Callable[[], object], process: asyncio.subprocess.Process | None = None) -> object:
    """Until it is true. Nothing tells us of what happens in another namespace, so it is looked for."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := look()):
            if process is not None and process.returncode is not None:
                raise AssertionError(f"the porter ended with {process.returncode}: {await process.stderr.read()}")
            await asyncio.sleep(0.005)
        return found


async def read_to_end(descriptor: int) -> bytes:
    """A terminal's end is an error (EIO) instead of nothing."""
    def whole() -> bytes:
        pieces = []
        with contextlib.suppress(OSError):
            while piece := os.read(descriptor, 65536):
                pieces.append(piece)
        return b"".join(pieces)

    return await asyncio.wait_for(asyncio.to_thread(whole), PATIENCE_S)


def framed(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


def in_folder(door: Door, folder: str) -> Door:
    return replace(door, workdir=folder)
