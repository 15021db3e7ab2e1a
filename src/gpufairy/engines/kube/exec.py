"""A command run in a container of a pod, its streams as messages. Version 5 of the protocol can end the input alone; servers before 1.30
speak version 4, which cannot."""
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gpufairy.engines.kube.api import KubeApi, pod_path
from gpufairy.engines.kube.channels import open_channels
from gpufairy.engines.kube.stream import KubeStream
from gpufairy.engines.kube.words import refusal

V5, V4 = Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io")
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
CHUNK = 128 * 1024  # bytes of input a message


class ExecChannel:
    """Iterate for (STDOUT or STDERR, bytes); afterwards `exit_code` is known."""

    def __init__(self, api: KubeApi, socket: ClientConnection, what: str) -> None:
        self._api, self._socket, self._what = api, socket, what
        self.exit_code: int | None = None
        self.ends_input = socket.subprotocol == V5

    async def write(self, data: bytes | memoryview) -> None:
        """Raises BrokenPipeError: the command ended before it had read all."""
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            await self._send(b"\0" + view[start : start + CHUNK])

    async def end_input(self) -> None:
        """What it still says comes. With version 4 it waits on."""
        if self.ends_input:
            await self._send(bytes((CLOSE, STDIN)))

    async def resize(self, columns: int, rows: int) -> None:
        await self._send(bytes((RESIZE,)) + json.dumps({"Width": columns, "Height": rows}).encode())

    async def close(self) -> None:
        """Kubernetes ends nothing then: the command goes on, in a terminal too, unless it reads the end of its input and goes by itself."""
        await self._socket.close()

    async def _send(self, message: bytes) -> None:
        try:
            await self._socket.send(message)
        except ConnectionClosed as error:
            raise BrokenPipeError from error

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        """Raises KubeRefused: it could not be run. KubeSilent: cut off, and its end is not known."""
        try:
            async for message in self._socket:
                frame = message if isinstance(message, bytes) else message.encode()
                if len(frame) < 2:
                    continue  # each channel is opened with an empty message
                if frame[0] == STATUS:
                    self.exit_code = self._ended(frame[1:])
                elif frame[0] in (STDOUT, STDERR):
                    yield frame[0], frame[1:]
        except ConnectionClosed as error:
            if self.exit_code is None:
                raise self._api.http.silent(self._what, "cut", f"broke off ({error})", sent=True) from error
        if self.exit_code is None:
            raise self._api.http.silent(self._what, "cut", "ended the stream without a word on how the command ended", sent=True)

    def _ended(self, text: bytes) -> int:
        try:
            told: dict[str, Any] = json.loads(text)
            if told.get("status") == "Success":
                return 0
            causes = (told.get("details") or {}).get("causes") or []
            codes = [int(one["message"]) for one in causes if one.get("reason") == "ExitCode"]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._api.http.silent(self._what, "nonsense", f"ended the stream with {text[:100]!r}", sent=True) from error
        if codes:
            return codes[0]
        raise refusal(int(told.get("code") or 500), text, what=self._what, where=self._api.http.where, who=self._api.access.words)


async def exec_channel(
    api: KubeApi, namespace: str, pod: str, container: str, argv: Sequence[str], *, terminal: bool, stdin: bool = True
) -> ExecChannel:
    """Raises KubeRefused, KubeSilent."""
    # With a terminal all comes on one channel, and the server refuses to be asked for another.
    asked = {"stdin": stdin, "stdout": True, "stderr": not terminal, "tty": terminal}
    query = [(name, str(wanted).lower()) for name, wanted in asked.items()]
    query += [("container", container)] if container else []
    query += [("command", word) for word in argv]
    what = f"run {argv[0]} in pod {namespace}/{pod}"
    socket = await open_channels(api.http, pod_path(namespace, pod, "exec"), query, (V5, V4), what)
    return ExecChannel(api, socket, what)


async def exec_stream(
    api: KubeApi, namespace: str, pod: str, container: str, argv: Sequence[str], *, terminal: bool, columns: int = 80, rows: int = 24
) -> KubeStream:
    """Raises KubeRefused, KubeSilent."""
    channel = await exec_channel(api, namespace, pod, container, argv, terminal=terminal)
    if terminal:
        await channel.resize(columns, rows)
    return KubeStream(channel, terminal=terminal)
