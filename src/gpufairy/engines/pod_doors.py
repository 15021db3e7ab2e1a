"""Into a pod through the API server: commands by exec, connections by a program inside that joins them to its standard streams.

Exec runs a command with its arguments and nothing else. The rest (its folder, variables, signals) is done inside by /opt/fairy/bin/step.
"""
import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from gpufairy.core.errors import EngineRefused, EngineSilent, FairyError
from gpufairy.engines.contract import Command, Door, Stream
from gpufairy.engines.kube.access import load_access
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.exec import STDOUT, ExecChannel, exec_channel, exec_stream
from gpufairy.engines.pod_spec import MAIN

STEP = "/opt/fairy/bin/step"
LONGEST_ANSWER_S = 10.0
GOODBYE_S = 1.0  # from SIGHUP to SIGKILL
CHUNK = 2**16

# One client for each way to a cluster, for as long as this process lives: the gateway opens thousands of doors, and each client holds a
# pool of connections. Not closed: it ends with its process.
_clients: dict[tuple[str, str], KubeApi] = {}
_background: set[asyncio.Task[None]] = set()


async def client(door: Door) -> KubeApi:
    key = (door.kubeconfig, door.context)
    if key not in _clients:
        access = await asyncio.to_thread(load_access, Path(door.kubeconfig) if door.kubeconfig else None, door.context or None, os.environ)
        made = KubeApi(access)
        await made.open()
        _clients.setdefault(key, made)
    return _clients[key]


async def close_clients() -> None:
    """When the process leaves. Who was being told to go hears it once; nobody is told a second time."""
    under_way = list(_background)
    if under_way:
        await asyncio.wait(under_way, timeout=GOODBYE_S / 2)
    for task in under_way:
        task.cancel()
    if under_way:
        await asyncio.wait(under_way)
    for key in list(_clients):
        await _clients.pop(key).close()


class PodStream:
    """A command in a pod. The caller reads and writes the descriptors, and closes the stream."""

    def __init__(self, stream: Stream, door: Door, tag: str) -> None:
        self._stream, self._door, self._tag = stream, door, tag
        self.stdin, self.stdout, self.stderr = stream.stdin, stream.stdout, stream.stderr

    def resize(self, columns: int, rows: int) -> None:
        self._stream.resize(columns, rows)

    def signal(self, number: int) -> None:
        in_background(tell(self._door, self._tag, number))

    async def wait(self) -> int:
        return await self._stream.wait()

    async def close(self) -> None:
        """Without a terminal a command that is left alone runs on: it is told, and a second later made to end."""
        over = asyncio.ensure_future(self._stream.wait())
        await asyncio.wait([over], timeout=0)
        ended = over.done()
        over.cancel()
        # What the caller has closed, such as the input at its end, is -1: its number may be somebody else's by now.
        self._stream.stdin, self._stream.stdout, self._stream.stderr = self.stdin, self.stdout, self.stderr
        self.stdin = self.stdout = self.stderr = -1
        await self._stream.close()
        if not ended:
            in_background(send_away(self._door, self._tag))


async def open_in_pod(door: Door, command: Command) -> PodStream:
    """Raises EngineRefused: it does not run, or the command cannot be run there."""
    if not command.argv:
        raise EngineRefused("no command was given to be run in the session")
    if any("\0" in text for text in (*command.argv, *(value for _, value in command.env))):
        raise EngineRefused("a zero byte is in the command or its variables, which no command can have")
    api, tag = await client(door), secrets.token_hex(8)
    env = dict(door.env) | dict(command.env)
    if command.terminal:
        env.setdefault("TERM", "xterm-256color")
    pairs = [word for pair in env.items() for word in ("--env", "=".join(pair))]
    argv = [STEP, "--tag", tag, "--workdir", door.workdir, *pairs, "--", *command.argv]
    namespace, _, pod = door.pod.partition("/")
    stream = await exec_stream(api, namespace, pod, MAIN, argv, terminal=command.terminal, columns=command.columns, rows=command.rows)
    return PodStream(stream, door, tag)


async def connect_to_pod(door: Door, where: int | str) -> socket.socket:
    """Raises EngineRefused: nobody listens there."""
    if isinstance(where, int) and not 0 < where < 2**16:
        raise EngineRefused(f"there is no port {where}: ports are 1 to 65535")
    if isinstance(where, str) and (not where.startswith("/") or "\0" in where):
        raise EngineRefused(f"{where[:200]!r} is no path of a socket in the session")
    namespace, _, pod = door.pod.partition("/")
    async with contextlib.AsyncExitStack() as on_failure:
        channel = await exec_channel(await client(door), namespace, pod, MAIN, [STEP, "--join", str(where)], terminal=False)
        on_failure.push_async_callback(channel.close)
        incoming = aiter(channel)
        async with asyncio.timeout(LONGEST_ANSWER_S):
            first = await joined(incoming, where)
        on_failure.pop_all()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    in_background(carry(channel, incoming, ours, first))
    return theirs


async def joined(incoming: AsyncIterator[tuple[int, bytes]], where: int | str) -> bytes:
    """What came behind the +, which says that somebody listens there."""
    words = b""
    with contextlib.suppress(EngineSilent):
        async for kind, data in incoming:
            if kind == STDOUT:
                return data[1:]
            words += data
    name = f"port {where}" if isinstance(where, int) else repr(where[:200])
    raise EngineRefused(f"{name} of the session cannot be reached: {words.decode('utf-8', 'replace')[:200] or 'nobody listens there'}")


async def carry(channel: ExecChannel, incoming: AsyncIterator[tuple[int, bytes]], ours: socket.socket, first: bytes) -> None:
    up = asyncio.create_task(upwards(channel, ours))
    loop = asyncio.get_running_loop()
    try:
        with contextlib.suppress(OSError, FairyError):
            if first:
                await loop.sock_sendall(ours, first)
            async for kind, data in incoming:
                if kind == STDOUT:
                    await loop.sock_sendall(ours, data)
    finally:
        up.cancel()
        await asyncio.wait([up])
        ours.close()
        await channel.close()


async def upwards(channel: ExecChannel, ours: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, FairyError):
        while data := await loop.sock_recv(ours, CHUNK):
            await channel.write(data)
        await channel.end_input()


async def send_away(door: Door, tag: str) -> None:
    await tell(door, tag, signal.SIGHUP)
    await asyncio.sleep(GOODBYE_S)
    await tell(door, tag, signal.SIGKILL)


async def tell(door: Door, tag: str, number: int) -> None:
    """One that is over hears nothing; and a pod that is gone has taken it with it."""
    namespace, _, pod = door.pod.partition("/")
    with contextlib.suppress(FairyError, TimeoutError):
        async with asyncio.timeout(LONGEST_ANSWER_S):
            argv = [STEP, "--tell", tag, str(int(number))]
            channel = await exec_channel(await client(door), namespace, pod, MAIN, argv, terminal=False, stdin=False)
            async for _ in channel:
                pass
            await channel.close()


def in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
