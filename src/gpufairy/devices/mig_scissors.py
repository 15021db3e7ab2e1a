"""Scissors: what cuts a GPU by MIG. The real ones are a process of their own (mig_apply.py), since a driver may hang in any call."""
import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu
from gpufairy.devices.mig_order import CutDone, CutOrder, CutSeen, Outcome, instances_from_plain, order_to_plain, seen_from_plain
from gpufairy.devices.nvml_process import LONGEST_END_S, AskingProcess, start_asking

PROGRAM = (sys.executable, "-P", "-m", "gpufairy.devices.mig_apply")
LONGEST_STEP_S = 60.0  # without a word: a GPU instance takes about a second, MIG mode some five, a driver that is being loaded ten
YES = "yes"

HeldBy = Callable[[MigInstance], str]  # who holds it, in words; empty: nobody


class Scissors(Protocol):
    def kept(self, gpu: Gpu) -> CutSeen | None:
        """How it was cut before the server started, where the driver does not tell that by itself."""

    async def look(self, gpu: Gpu) -> CutSeen: ...

    async def cut(self, gpu: Gpu, order: CutOrder, held_by: HeldBy) -> CutDone:
        """`held_by` is asked right before each instance that goes. EngineSilent: nobody knows how far it came; give the order again."""


class NvmlScissors:
    def __init__(self, env: Mapping[str, str] | None = None, limit_s: float = LONGEST_STEP_S, program: tuple[str, ...] = PROGRAM) -> None:
        self._env, self._limit_s, self._program = env, limit_s, program
        self._stuck: AskingProcess | None = None  # in the kernel, where nobody can kill it: there is never more than one

    def kept(self, gpu: Gpu) -> CutSeen | None:
        return None

    async def look(self, gpu: Gpu) -> CutSeen:
        return seen_from_plain((await self._ask({"do": "look", "gpu": gpu.uuid}, lambda one: ""))["seen"])

    async def cut(self, gpu: Gpu, order: CutOrder, held_by: HeldBy) -> CutDone:
        told = await self._ask({"do": "cut", "gpu": gpu.uuid, "order": order_to_plain(order)}, held_by)
        return CutDone(Outcome(told["outcome"]), seen_from_plain(told["seen"]), str(told["why"]))

    async def _ask(self, what: dict[str, Any], held_by: HeldBy) -> dict[str, Any]:
        if self._stuck is not None and not await self._gone(self._stuck):
            raise EngineSilent("the process that asked the NVIDIA driver before is still stuck in it (NVML call hung)", "See `dmesg`.")
        try:
            child = await start_asking(self._program, self._env)
        except OSError as error:
            raise EngineSilent(f"the process that cuts GPUs cannot be started: {error}") from error
        try:
            child.tell(json.dumps(what).encode() + b"\n")
            return await self._heard(child, held_by)
        except TimeoutError:
            found = f"the NVIDIA driver has not answered for {self._limit_s:.0f} s (NVML call hung) while {what['gpu']} was cut"
            raise EngineSilent(found, "See `dmesg`. It is finished or undone when the server starts again.") from None
        finally:
            await child.end(at_once=True)
            self._stuck = None if await self._gone(child) else child

    async def _gone(self, child: AskingProcess) -> bool:
        try:
            async with asyncio.timeout(LONGEST_END_S):
                await child.gone()
        except TimeoutError:
            return False
        return True

    async def _heard(self, child: AskingProcess, held_by: HeldBy) -> dict[str, Any]:
        while True:
            line = await child.line(self._limit_s)
            told = _read(line)
            if "may" in told:
                (one,) = instances_from_plain([told["may"]])
                child.tell((held_by(one) or YES).replace("\n", " ").encode() + b"\n")
            elif "trouble" in told:
                raise EngineRefused(str(told["trouble"]), str(told.get("next", "")))
            else:
                return told


def _read(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        told = json.loads(line)
        if isinstance(told, dict):
            return told
    raise EngineSilent("the process that cuts GPUs ended in the middle" if not line else f"it said {line[:80]!r}, which is no answer")


