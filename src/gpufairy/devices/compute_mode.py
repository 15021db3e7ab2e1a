"""The compute mode of GPUs, changed while one is shared by MPS, and put back. Asked through a process of its own: drivers hang.

In EXCLUSIVE_PROCESS a program that goes round the MPS daemon gets no context at all, instead of the whole GPU.
"""
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gpufairy.core.errors import EngineRefused
from gpufairy.devices.bounded_call import Answer, BoundedCalls

PROGRAM = (sys.executable, "-P", "-m", "gpufairy.devices.compute_mode_child")
EXCLUSIVE_PROCESS = 3  # NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
LIMIT_S = 30.0  # a driver that is loaded on first use takes ten seconds


class KeptComputeMode:
    """Called with True before the first fraction of a GPU and with False after the last. Twice the same is harmless.

    What it was is written down before it is changed: whoever comes after a crash does not take our own mode for the former one.
    """

    def __init__(self, folder: Path, *, env: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> None:
        self._folder, self._limit_s = folder, limit_s
        self._env = {**os.environ, **(env or {})}
        self._calls = BoundedCalls()

    async def __call__(self, gpu: str, exclusive: bool) -> None:
        if exclusive:
            await self._set_exclusive(gpu)
        else:
            await self._set_back(gpu)

    async def _set_exclusive(self, gpu: str) -> None:
        seen = await self._ask(gpu)
        if not self._former(gpu).exists():
            self._write_former(gpu, seen)
        if seen != EXCLUSIVE_PROCESS:
            await self._ask(gpu, EXCLUSIVE_PROCESS)

    async def _set_back(self, gpu: str) -> None:
        former = self._former(gpu)
        if not former.exists():  # never changed by us
            return
        text = former.read_text()
        await self._ask(gpu, int(text) if text.isdecimal() else 0)  # half a file: DEFAULT, as every GPU has after a reboot
        former.unlink(missing_ok=True)

    def _former(self, gpu: str) -> Path:
        return self._folder / gpu / "former_compute_mode"

    def _write_former(self, gpu: str, mode: int) -> None:
        former = self._former(gpu)
        beside = former.with_suffix(".new")
        try:
            former.parent.mkdir(parents=True, exist_ok=True)
            with open(beside, "w", encoding="ascii") as file:
                file.write(str(mode))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(former)
        except OSError as error:
            raise EngineRefused(
                f"the compute mode of GPU {gpu} is left as it is: what it was cannot be written to {former}: {error}", "Make room there."
            ) from error

    async def _ask(self, gpu: str, mode: int | None = None) -> int:
        """The mode that holds now, after it was set if one is given."""
        wanted = [] if mode is None else [str(mode)]
        try:
            answer = await self._calls.run([*PROGRAM, gpu, *wanted], env=self._env, limit_s=self._limit_s)
        except TimeoutError as error:
            raise EngineRefused(f"the NVIDIA driver did not answer for the compute mode of GPU {gpu}: {error}", "See `dmesg`.") from error
        if answer.code != 0 or not answer.out.strip().isdecimal():
            deed = "read" if mode is None else "set"
            raise EngineRefused(f"the compute mode of GPU {gpu} cannot be {deed}: {_found(answer)}", _next(answer))
        return int(answer.out)


def _found(answer: Answer) -> str:
    return answer.err.strip().splitlines()[-1][:300] if answer.err.strip() else f"code {answer.code}"


def _next(answer: Answer) -> str:
    if "Insufficient Permissions" in answer.err:
        return "Run the server as root, or share by time."
    if "MIG" in answer.err:
        return "Ask for one of its MIG profiles, or take the GPU out of MIG mode when nobody uses it."
    return "See `nvidia-smi -q -d COMPUTE` and `dmesg`."
