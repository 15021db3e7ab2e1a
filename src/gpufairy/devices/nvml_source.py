"""NvmlSource: starts the process that asks the NVIDIA driver, listens to it, and ends it when the driver hangs.

A process stuck in the kernel cannot be killed. So there is never more than one: the next starts only when the last is really gone.
"""
import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gpufairy.core.errors import BadInput
from gpufairy.core.reading import GpuSample
from gpufairy.devices.gpu_source import OnSample
from gpufairy.devices.nvml_exits import NO_DRIVER
from gpufairy.devices.nvml_process import LONGEST_END_S, AskingProcess, start_asking
from gpufairy.devices.sample_line import from_line

PROGRAM = (sys.executable, "-P", "-m", "gpufairy.devices.nvml_child")  # -P: a json.py in the folder we stand in is not ours


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds, on the clock that nobody can put forward or back."""

    silence_s: float = 10.0  # without a line: what was read is too old, and the driver hangs
    opening_s: float = 30.0  # until the first line: a driver that is loaded on first use takes ten, with many GPUs longer
    wait_s: float = 1.0  # before the process is started again; doubled each time
    hung_wait_s: float = 5.0  # the same, when it hung
    longest_wait_s: float = 60.0
    sound_s: float = 60.0  # a process that told samples for so long was sound: the next wait is short again

    def wait_after(self, failures: int, hung: bool) -> float:
        """`failures` in a row, this one counted."""
        first_s = self.hung_wait_s if hung else self.wait_s
        return min(first_s * float(2 ** min(failures - 1, 10)), self.longest_wait_s)


class NvmlSource:
    """`on_sample` is called with each sample as it comes; it must be quick and must not raise."""

    def __init__(
        self,
        every_s: float = 1.0,
        env: Mapping[str, str] | None = None,
        *,
        on_sample: OnSample | None = None,
        patience: Patience = Patience(),
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._command = (*program, "--every", str(every_s))
        self._env = env
        self._on_sample, self._patience = on_sample, patience
        self._silence_s = max(patience.silence_s, every_s + patience.silence_s / 2)
        self._sample: GpuSample | None = None
        self._seen_gpus = self._no_driver = self._hung = self._answered = False
        self._heard_s = 0.0  # when the last line came
        self._trouble = "the NVIDIA driver has not been asked yet"
        self._failures = 0  # in a row
        self._loop: asyncio.Task[None] | None = None
        self._child: AskingProcess | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that asks."""
        return self._child.pid if self._child is not None else None

    @property
    def trouble(self) -> str:
        silent_s = time.monotonic() - self._heard_s
        if self._hung or (self._child is not None and silent_s > self._silence_s):
            return f"the NVIDIA driver has not answered for {silent_s:.0f} s (NVML call hung)"
        return self._trouble

    def latest(self) -> GpuSample | None:
        if self._no_driver and not self._seen_gpus:  # where GPUs were seen, a driver that vanished is no proof that they did
            return GpuSample(datetime.now(UTC))
        return self._sample if time.monotonic() - self._heard_s <= self._silence_s else None

    @property
    def answered(self) -> bool:
        """Whether anything was heard yet: a sample, or why there is none."""
        return self._answered

    async def start(self) -> None:
        self._heard_s = time.monotonic()
        self._loop = asyncio.create_task(self._keep_asking())

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def _keep_asking(self) -> None:
        while True:
            began_s = time.monotonic()
            why = await self._ask()
            self._failures = 1 if self._heard_s - began_s > self._patience.sound_s else self._failures + 1
            wait_s = self._patience.longest_wait_s if self._no_driver else self._patience.wait_after(self._failures, self._hung)
            if why:
                self._trouble = f"{why}; it is started again in {wait_s:.0f} s"
            await asyncio.sleep(wait_s)

    async def _ask(self) -> str:
        """By one process, from its start until it is gone. Returns why it is, in words; nothing if it told so itself."""
        try:
            child = self._child = await start_asking(self._command, self._env)
        except OSError as error:
            return f"the process that asks the NVIDIA driver cannot be started: {error}"
        try:
            why = await self._listen(child)
            await child.end(at_once=self._hung)
            await child.gone()
        except asyncio.CancelledError:
            await child.end(at_once=self._hung)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_END_S):
                    await child.gone()
            raise
        self._child, self._no_driver = None, child.code == NO_DRIVER
        return why and f"{why} (code {child.code})"

    async def _listen(self, child: AskingProcess) -> str:
        """Until it ends, hangs or talks nonsense."""
        limit_s, told = self._patience.opening_s, False
        while True:
            try:
                line = await child.line(limit_s)
                if not line.endswith(b"\n"):
                    return "" if told and self._sample is None else "the process that asks the NVIDIA driver ended"
                self._hear(from_line(line))
            except TimeoutError:
                self._hung = True
                return "the NVIDIA driver did not answer"
            except (ValueError, BadInput) as error:  # the first: a line without an end
                return f"the process that asks the NVIDIA driver cannot be understood: {error}"
            limit_s, told = self._silence_s, True

    def _hear(self, told: GpuSample | str) -> None:
        self._heard_s, self._hung, self._answered = time.monotonic(), False, True
        if isinstance(told, str):
            self._sample, self._trouble = None, told
            return
        self._sample, self._trouble, self._no_driver = told, "", False
        self._seen_gpus |= bool(told.devices or told.lost)
        if self._on_sample is not None:
            self._on_sample(told)
