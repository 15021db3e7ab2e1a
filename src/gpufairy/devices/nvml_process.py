"""The process of nvml_child.py as seen by the one that started it: its lines, its end.

Not by asyncio's own subprocesses: from Python 3.12 on they wait for a process without a limit once it is dead, and one that a debugger
looks on at is dead and not gone. Then the whole loop would stand still.
"""
import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from gpufairy.devices.sample_line import LONGEST_LINE_BYTES

LOOK_S = 0.05  # how often is looked whether it is gone; only while it is ending
LONGEST_END_S = 2.0
LAST_CHANCE_S = 0.5  # after our own process stood still, lines may wait that we have not read


class AskingProcess:
    def __init__(self, process: subprocess.Popen[bytes], lines: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        self._process, self._lines, self._pipe = process, lines, pipe

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.returncode

    def tell(self, line: bytes) -> None:
        """A short one: it is in the pipe at once. One that is gone hears nothing, and its end tells."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    async def line(self, limit_s: float) -> bytes:
        """Without an end: it was the last. Raises TimeoutError, and ValueError for one that is too long."""
        try:
            async with asyncio.timeout(limit_s):
                return await self._lines.readline()
        except TimeoutError:
            async with asyncio.timeout(LAST_CHANCE_S):
                return await self._lines.readline()

    async def end(self, at_once: bool) -> None:
        """With its stdin closed it ends by itself, with a code that says why; else it is killed, once."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._pipe.close()  # a process that cannot write any more must not wait until it can
        if not at_once:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_END_S):
                    await self.gone()
        if self._process.poll() is None:
            self._process.kill()

    async def gone(self) -> None:
        """Without a limit: one that is stuck in the kernel goes when the driver lets go of it."""
        while self._process.poll() is None:  # noqa: ASYNC110 - nobody rings, see above
            await asyncio.sleep(LOOK_S)


async def start_asking(command: Sequence[str], env: Mapping[str, str] | None) -> AskingProcess:
    """Raises OSError."""
    process = _started(command, env)
    lines = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    try:
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), process.stdout)
    except asyncio.CancelledError:
        process.kill()
        raise
    return AskingProcess(process, lines, pipe)


def _started(command: Sequence[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C at our terminal is for us, and we end it."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=None if env is None else {**os.environ, **env},
        start_new_session=True,
    )
