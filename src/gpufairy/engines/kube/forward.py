"""A connection to a port of a pod's own loopback, through the API server. Each has a WebSocket of its own.

The protocol cannot end one direction alone: where our side says that it will send no more, the other is not told.
"""
import asyncio
import contextlib
import logging
import select
import socket

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gpufairy.engines.kube.api import KubeApi, pod_path
from gpufairy.engines.kube.channels import open_channels
from gpufairy.engines.kube.errors import KubeRefused

log = logging.getLogger(__name__)
V4 = Subprotocol("v4.channel.k8s.io")  # a kubelet's own; v5 is for exec
DATA, ERROR = 0, 1
CHUNK = 128 * 1024
BUFFER = 512 * 1024
ANSWER_S = 10.0  # for the kubelet to say that it has begun
SETTLED_S = 0.1  # for its no, where nobody listens; of a yes we are not told
LOOK_S = 1.0  # how often one that has ended its sending is looked at: whether it is closed


async def forward(api: KubeApi, namespace: str, pod: str, port: int) -> socket.socket:
    """Connected; whoever has it closes it. Raises KubeRefused: nobody listens there, or we may not. KubeSilent."""
    what = f"connect to port {port} of pod {namespace}/{pod}"
    line = await open_channels(api.http, pod_path(namespace, pod, "portforward"), [("ports", str(port))], (V4,), what)
    async with contextlib.AsyncExitStack() as on_failure:
        on_failure.push_async_callback(line.close)
        early = await _begun(api, line, what)
        on_failure.pop_all()
    theirs, ours = socket.socketpair()
    for one in (theirs, ours):
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    api.keep(_carried(line, ours, early, what), lambda: _end(line, ours))
    return theirs


async def _begun(api: KubeApi, line: ClientConnection, what: str) -> list[bytes]:
    """What it has said already. Each of the two channels begins with the number of the port."""
    said: list[bytes] = []
    try:
        async with asyncio.timeout(ANSWER_S):
            for _ in (DATA, ERROR):
                await line.recv()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                message = _bytes(await line.recv())
                if message[:1] == bytes((ERROR,)):
                    raise _refused(api, message[1:], what)
                said.append(message[1:])
    except TimeoutError as error:
        raise api.http.silent(what, "timeout", "gave no answer in time", sent=True) from error
    except ConnectionClosed as error:
        raise api.http.silent(what, "cut", f"broke off ({error})", sent=True) from error
    return said


def _refused(api: KubeApi, words: bytes, what: str) -> KubeRefused:
    told = words.decode("utf-8", "replace").strip()
    short = "nobody listens there" if "connection refused" in told else told[:500]
    return KubeRefused(
        f"Could not {what}: {short}.", "Is the program started, and does it listen on that port of localhost?",
        status=502, reason="NotListening" if "connection refused" in told else "ForwardFailed", what=what, message=told,
    )  # fmt: skip


async def _carried(line: ClientConnection, ours: socket.socket, early: list[bytes], what: str) -> None:
    sending = asyncio.create_task(_carry_out(line, ours))
    try:
        await _carry_in(line, ours, early, what)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        ours.close()
        await line.close()


def _end(line: ClientConnection, ours: socket.socket) -> None:
    ours.close()
    line.transport.abort()


async def _carry_in(line: ClientConnection, ours: socket.socket, early: list[bytes], what: str) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, ConnectionClosed):  # either side is gone, and the other will see it
        for data in early:
            await loop.sock_sendall(ours, data)
        async for message in line:
            frame = _bytes(message)
            if frame[:1] == bytes((ERROR,)):
                log.info("Could not go on to %s: %s", what, frame[1:300].decode("utf-8", "replace"))
                return
            await loop.sock_sendall(ours, frame[1:])


async def _carry_out(line: ClientConnection, ours: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, ConnectionClosed):
        while data := await loop.sock_recv(ours, CHUNK):
            await line.send(bytes((DATA,)) + data)
    while not _is_gone(ours):  # noqa: ASYNC110 - it rings no bell: that its sending is over makes it readable for ever
        await asyncio.sleep(LOOK_S)
    await line.close()


def _is_gone(ours: socket.socket) -> bool:
    """Closed, and not only done with sending."""
    look = select.poll()
    look.register(ours, 0)
    return any(seen & (select.POLLHUP | select.POLLERR) for _, seen in look.poll(0))


def _bytes(message: str | bytes) -> bytes:
    return message if isinstance(message, bytes) else message.encode()
