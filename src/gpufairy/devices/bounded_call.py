"""One call of a program that may hang: a time limit, a process group that is killed, and never a second one beside one that is stuck."""
import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_ANSWER_BYTES = 65_536  # of each of stdout and stderr: the longest true answer, a list of 60 programs, has under 10,000
DYING_S = 0.5  # a killed process that is not gone after this sits in the driver, and nobody can end it


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it said, for people."""
        return "\n".join(part for part in (self.out.strip(), self.err.strip()) if part)


class BoundedCalls:
    """Calls that belong together: while one of them is stuck in the kernel, none is started."""

    def __init__(self) -> None:
        self._stuck: subprocess.Popen[bytes] | None = None

    async def run(
        self, command: Sequence[str], *, env: Mapping[str, str], limit_s: float, text: str = "", cwd: str | None = None
    ) -> Answer:
        """Raises TimeoutError, at once while an earlier call is still stuck, and OSError for a program that cannot be started."""
        if self._stuck is not None and self._stuck.poll() is None:
            raise TimeoutError(f"process {self._stuck.pid}, which asked before, is stuck and cannot be killed")
        self._stuck = None
        return await asyncio.to_thread(self._run, command, dict(env), limit_s, text.encode(), cwd)

    def _run(self, command: Sequence[str], env: dict[str, str], limit_s: float, text: bytes, cwd: str | None) -> Answer:
        # Files, not pipes: what the program leaves running in the background may hold a pipe open for ever.
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            told.write(text)
            told.seek(0)
            process = subprocess.Popen(command, env=env, cwd=cwd, stdin=told, stdout=out, stderr=err, start_new_session=True)
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired as error:
                self._end(process)
                raise TimeoutError(f"no answer within {limit_s:g} s") from error
            return Answer(code, _read(out.fileno()), _read(err.fileno()))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(DYING_S)
        except subprocess.TimeoutExpired:
            self._stuck = process


def _read(descriptor: int) -> str:
    return os.pread(descriptor, MOST_ANSWER_BYTES, 0).decode(errors="replace")
