"""Through a workload's door, by any process of this machine that was told of it: the engine itself, or the SSH gateway."""
import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace

from gpufairy.core.errors import EngineRefused
from gpufairy.engines.contract import Command, Door, DoorKind, Stream
from gpufairy.engines.pod_doors import connect_to_pod, open_in_pod
from gpufairy.engines.porter import connect_in, open_in
from gpufairy.engines.process_env import allowed
from gpufairy.engines.shim import beside_argv, pinned
from gpufairy.engines.streams import DescriptorStream, open_stream

LONGEST_CONNECT_S = 5.0
LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


async def open_door(door: Door, command: Command) -> Stream:
    """Raises EngineRefused."""
    if door.kind is DoorKind.PORTER:
        return await open_in(door, replace(command, env=tuple(allowed(command.env))))
    if door.kind is DoorKind.POD:
        return await open_in_pod(door, replace(command, env=tuple(allowed(command.env))))
    return open_beside(door, command, lambda _: None)


async def connect_door(door: Door, where: int | str) -> socket.socket:
    """Raises EngineRefused: nobody listens there."""
    if door.kind is DoorKind.PORTER:
        return await connect_in(door, where)
    if door.kind is DoorKind.POD:
        return await connect_to_pod(door, where)
    return await _connect_here(where)


def open_beside(door: Door, command: Command, on_gone: Callable[[DescriptorStream], None]) -> DescriptorStream:
    """A child of ours, in the surroundings of a workload that is a process of this machine."""
    if not command.argv:
        raise EngineRefused("no command was given to be run in the session")
    env = dict(door.env) | dict(allowed(command.env))
    if command.terminal:
        env.setdefault("TERM", "xterm-256color")
    try:
        with pinned(frozenset(door.cpus)):
            return open_stream(beside_argv(door.workdir, door.most_files, command.argv), env, command, on_gone)
    except (OSError, ValueError) as error:
        raise EngineRefused(f"{command.argv[0][:200]!r} could not be started in the session: {error}") from error


async def _connect_here(where: int | str) -> socket.socket:
    if isinstance(where, str):
        tried: tuple[tuple[int, tuple[str, int] | str], ...] = ((socket.AF_UNIX, where),)
    else:
        tried = tuple((family, (host, where)) for family, host in LOOPBACKS)
    words = ""
    for family, address in tried:
        try:
            return await _connected(family, address)
        except (OSError, ValueError, OverflowError) as error:  # the last two: no such port, a path with a zero byte
            words = str(error) or "no answer in time"
    raise EngineRefused(f"{where!r} of the session cannot be reached: {words}")


async def _connected(family: int, address: tuple[str, int] | str) -> socket.socket:
    with contextlib.ExitStack() as on_failure:
        made = on_failure.enter_context(socket.socket(family, socket.SOCK_STREAM))
        made.setblocking(False)
        async with asyncio.timeout(LONGEST_CONNECT_S):
            await asyncio.get_running_loop().sock_connect(made, address)
        made.setblocking(True)
        on_failure.pop_all()
    return made
