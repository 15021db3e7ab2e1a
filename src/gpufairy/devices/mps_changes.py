"""What befell a daemon between two looks at it, in words. Pure."""
from collections.abc import Collection, Iterator

from gpufairy.devices.mps_control import same_percent
from gpufairy.devices.mps_values import Caps, MpsEvent, MpsLook, MpsServer
from gpufairy.devices.mps_words import LOST_CONTEXTS, programs

NEAR_LIMIT = 4  # programs short of the limit: a session that starts a few workers comes to it at once
Change = tuple[MpsEvent, str]


def changes(gpu: str, before: MpsLook, now: MpsLook, *, limit: int, living: Collection[int]) -> Iterator[Change]:
    """`living`: the programs seen before that still run. A server that ended after all of them has hurt nobody."""
    yield from _lost_servers(gpu, before, now, living)
    yield from _faults(gpu, before, now)
    yield from _crowding(gpu, len(before.clients), len(now.clients), limit)


def caps_hold(look: MpsLook, caps: Caps, memory_limit: str) -> bool:
    """`memory_limit`: as the daemon told it when it was set."""
    told = [(look.sm_percent, look.memory_limit), *((server.sm_percent, server.memory_limit) for server in look.servers)]
    return all(same_percent(percent, caps.sm_percent) and limit == memory_limit for percent, limit in told)


def _lost_servers(gpu: str, before: MpsLook, now: MpsLook, living: Collection[int]) -> Iterator[Change]:
    still_there = {server.pid for server in now.servers}
    for server in before.servers:
        hurt = [pid for pid in server.clients if pid in living]
        if server.pid not in still_there and hurt:
            words = f"the MPS server of GPU {gpu} (process {server.pid}) died while {programs(hurt)} used it."
            yield MpsEvent.SERVER_LOST, f"{words} {LOST_CONTEXTS}"


def _faults(gpu: str, before: MpsLook, now: MpsLook) -> Iterator[Change]:
    were = {server.pid for server in before.servers if server.at_fault}
    for server in now.servers:
        if server.at_fault and server.pid not in were:
            yield MpsEvent.FAULT, _fault_words(gpu, server)
        if not server.at_fault and server.pid in were:
            yield MpsEvent.FAULT_OVER, f"the MPS server of GPU {gpu} is sound again: new programs may use it"


def _fault_words(gpu: str, server: MpsServer) -> str:
    return (
        f"a program on GPU {gpu} crashed in GPU code, and by MPS that ends CUDA in all that shared the GPU: "
        f"{programs(server.clients)} cannot go on and must end. "
        "No new program gets in (CUDA error 807) until the last of them has."
    )


def _crowding(gpu: str, before: int, now: int, limit: int) -> Iterator[Change]:
    words = f"{now} programs use GPU {gpu}, and {limit} are the most that MPS takes"
    if now >= limit > before:
        yield MpsEvent.CLIENTS_AT_LIMIT, f"{words}: the next one gets a CUDA error"
    elif now >= limit - NEAR_LIMIT > before:
        yield MpsEvent.CLIENTS_NEAR_LIMIT, words
