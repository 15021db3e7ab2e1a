"""The door of a container: its porter, as this machine counts its processes."""
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.contract import Door, DoorKind
from gpufairy.engines.proc import ProcStat, stat_of

LISTENING = "@gpufairy-porter"  # its socket, as the kernel lists it
SOON_S, LONGEST_S = 0.005, 5.0  # a daemon calls a container running a moment before its first process has begun


async def porter_door(detail: Mapping[str, Any] | None, workdir: str, shell: str) -> Door | None:
    """Of a container as inspected. None: it does not run."""
    state = (detail or {}).get("State") or {}
    pid = int(state.get("Pid") or 0) if state.get("Running") else 0
    born = born_at(pid) if pid else None
    if born is None or not await listens(pid):
        return None
    return Door(DoorKind.PORTER, workdir, shell, pid=pid, birth_ticks=born.start_ticks)


def still_there(door: Door) -> bool:
    born = born_at(door.pid)
    return born is not None and born.start_ticks == door.birth_ticks


def born_at(pid: int) -> ProcStat | None:
    """None: it is gone. Raises EngineRefused: that cannot be told now."""
    try:
        return stat_of(pid)
    except OSError as error:  # this server has as many descriptors as it may have
        raise EngineRefused(f"the session's first process, {pid}, cannot be looked at: {error}", "Try again in a minute.") from error


async def listens(pid: int) -> bool:
    """Waits for it a little. The kernel's list is that of the container's own network."""
    waited_s = 0.0
    while True:
        try:
            if LISTENING in await asyncio.to_thread(Path(f"/proc/{pid}/net/unix").read_text):
                return True
        except OSError:  # gone
            return False
        if waited_s >= LONGEST_S:
            return False
        await asyncio.sleep(SOON_S)
        waited_s += SOON_S
