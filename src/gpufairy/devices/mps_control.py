"""Talking to one MPS control daemon by NVIDIA's nvidia-cuda-mps-control, which reads commands from stdin. Each call has a time limit."""
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.devices.bounded_call import Answer, BoundedCalls
from gpufairy.devices.mps_values import Caps, Heard, MpsLook, MpsServer
from gpufairy.devices.mps_words import program_missing

SERVER_START_S = 20.0  # a server opens the GPU, which takes seconds where no persistence daemon keeps it open
DAEMON_START_S = 10.0
NOBODY = "Cannot find MPS control daemon process"
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH")  # of ours: what others set (CUDA_VISIBLE_DEVICES, LD_PRELOAD) is not for the daemon
UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_PERCENT = re.compile(r"\d+(\.\d+)?")
_SIZE = re.compile(r"(\d+)([KMG]?)")


class MpsSilent(FairyError):
    """No answer in time. Never taken for "dead"."""


class MpsNobody(FairyError):
    """No daemon listens in that folder."""


class MpsRefused(FairyError):
    """The daemon answered, and said no."""


class MpsControl:
    def __init__(self, program: str, gpu: str, pipe: Path, log: Path, answer_s: float) -> None:
        self.pipe, self.log = pipe, log
        self._program, self._gpu, self._answer_s = program, gpu, answer_s
        self._calls = BoundedCalls()

    async def start(self, caps: Caps, *, multiuser: bool) -> Answer:
        """Raises MpsSilent. A driver that does not know a flag prints how it is used, starts nothing and says success.

        The caps go in by the environment: set by a command, they would come after the first program.
        """
        env = {
            **self._env(),
            "CUDA_VISIBLE_DEVICES": self._gpu,
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(caps.sm_percent),
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={caps.memory_text}",
        }
        flags = ("-multiuser-server",) if multiuser else ()
        return await self._run(["-d", *flags], env, "", DAEMON_START_S)

    async def look(self) -> MpsLook:
        """What the daemon does not say is part of what is seen."""
        try:
            pids = numbers(await self._ask("get_server_list"))
            servers = tuple([server for pid in pids if (server := await self._server(pid)) is not None])
            percent = await self._ask("get_default_active_thread_percentage")
            return MpsLook(Heard.ANSWER, servers, percent, await self._ask("get_default_device_pinned_mem_limit 0"))
        except MpsSilent as error:
            return MpsLook(Heard.SILENCE, why=error.detail)
        except MpsNobody as error:
            return MpsLook(Heard.NOBODY, why=error.detail)

    async def cap_defaults(self, caps: Caps) -> str:
        """For servers to come. Returns the memory limit as the daemon tells it, to know it again."""
        told = await self._ask(f"set_default_active_thread_percentage {caps.sm_percent}")
        _check_percent(told, caps)
        await self._ask(f"set_default_device_pinned_mem_limit 0 {caps.memory_text}")
        return await self._ask("get_default_device_pinned_mem_limit 0")

    async def cap_server(self, pid: int, caps: Caps) -> None:
        """For programs to come of a server that runs. One that is gone by now needs none."""
        told = await self._ask(f"set_active_thread_percentage {pid} {caps.sm_percent}")
        if "not found" in told:
            return
        _check_percent(told, caps)
        await self._ask(f"set_device_pinned_mem_limit {pid} 0 {caps.memory_text}")

    async def start_server(self, uid: int) -> None:
        await self._ask(f"start_server -uid {uid}", SERVER_START_S)

    async def quit(self) -> None:
        """Only for a daemon without programs: while it waits for them it answers nobody."""
        await self._ask("quit")

    async def _server(self, pid: int) -> MpsServer | None:
        state = await self._ask(f"get_server_status {pid}")
        if "not found" in state:
            return None
        clients = tuple(numbers(await self._ask(f"get_client_list {pid}")))
        percent = await self._ask(f"get_active_thread_percentage {pid}")
        return MpsServer(pid, state, clients, percent, await self._ask(f"get_device_pinned_mem_limit {pid} 0"))

    async def _ask(self, command: str, limit_s: float | None = None) -> str:
        answer = await self._run([], self._env(), f"{command}\n", limit_s or self._answer_s)
        if NOBODY in answer.text:
            raise MpsNobody(f"nobody listens in {self.pipe}")
        if answer.code != 0 or "nsufficient privileges" in answer.out or "Not enough privilege" in answer.out:
            raise MpsRefused(f"{command}: code {answer.code}, {answer.text[:300]!r}")
        return answer.out.strip()

    async def _run(self, flags: Sequence[str], env: Mapping[str, str], text: str, limit_s: float) -> Answer:
        try:
            return await self._calls.run([self._program, *flags], env=env, limit_s=limit_s, text=text, cwd="/")
        except TimeoutError as error:
            asked = text.split(maxsplit=1)[0] if text else "start"
            raise MpsSilent(f"{asked}: {error}") from error
        except OSError as error:
            raise program_missing(self._program, self._gpu, str(error)) from error

    def _env(self) -> Mapping[str, str]:
        ours = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return {**ours, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe), "CUDA_MPS_LOG_DIRECTORY": str(self.log)}


def numbers(text: str) -> list[int]:
    """`Server 12 not found` holds none."""
    return [int(word) for line in text.splitlines() if (word := line.strip()).isdecimal()]


def same_percent(told: str, percent: int) -> bool:
    return _PERCENT.fullmatch(told) is not None and float(told) == percent


def told_caps(look: MpsLook) -> Caps | None:
    """The daemon's own, a little more rather than less: it tells whole GiB. None: it tells none, or in words that we do not know."""
    limit = _SIZE.fullmatch(look.memory_limit)
    if limit is None or _PERCENT.fullmatch(look.sm_percent) is None:
        return None
    return Caps(round(float(look.sm_percent)), (int(limit[1]) + 1) * UNITS[limit[2]])


def _check_percent(told: str, caps: Caps) -> None:
    """The daemon answers with the value that holds now: another one than was asked is a no."""
    if not same_percent(told, caps.sm_percent):
        raise MpsRefused(f"a thread percentage of {caps.sm_percent} was asked, and {told[:100]!r} holds")
