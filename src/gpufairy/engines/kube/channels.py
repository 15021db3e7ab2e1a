"""WebSockets to the API server, on which several streams go at once: the first byte of each message says which."""
import socket
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from gpufairy.engines.kube.errors import KubeRefused
from gpufairy.engines.kube.http import KEEP_ALIVE, UNAUTHORIZED, Http
from gpufairy.engines.kube.identity import Proof
from gpufairy.engines.kube.words import refusal

OPEN_S = 30.0  # the API server itself connects to the kubelet first
PING_S = 20.0  # so that nobody between takes the connection for forgotten
GOODBYE_S = 1.0
LARGEST_MESSAGE = 16 * 2**20


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc  # nobody else is shown our token


async def open_channels(
    http: Http, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[Subprotocol], what: str
) -> ClientConnection:
    """Raises KubeRefused, KubeSilent."""
    proof = await http.proof(what)
    try:
        return await _opened(http, proof, f"{path}?{urlencode(query)}", protocols, what)
    except KubeRefused as error:
        if error.status != UNAUTHORIZED or (newer := await http.proof(what, proof)) is proof:
            raise
        return await _opened(http, newer, f"{path}?{urlencode(query)}", protocols, what)


async def _opened(http: Http, proof: Proof, path: str, protocols: Sequence[Subprotocol], what: str) -> ClientConnection:
    access = http.access
    named: dict[str, Any] = {"server_hostname": access.server_name} if access.server_name and proof.tls is not None else {}
    try:
        # A late pong is no sign of death: while nobody reads a command's output, we read nothing either. The kernel looks after that.
        made = await _Connect(
            f"ws{access.server.removeprefix('http')}{path}", ssl=proof.tls, additional_headers=dict(proof.headers), subprotocols=protocols,
            compression=None, max_size=LARGEST_MESSAGE, max_queue=16, ping_interval=PING_S, ping_timeout=None, proxy=access.proxy,
            open_timeout=OPEN_S, close_timeout=GOODBYE_S, user_agent_header=http.program, **named,
        )  # fmt: skip
    except InvalidStatus as error:
        told = error.response
        raise refusal(told.status_code, bytes(told.body or b""), what=what, where=http.where, who=access.words) from error
    except TimeoutError as error:
        raise http.silent(what, "timeout", "gave no answer in time", sent=True) from error
    except ssl.SSLError as error:
        raise http.not_trusted(what, error) from error
    except OSError as error:
        raise http.silent(what, "unreachable", f"cannot be reached ({error})", sent=False) from error
    except WebSocketException as error:
        raise http.silent(what, "nonsense", f"opens no stream ({error})", sent=True) from error
    own = made.transport.get_extra_info("socket")
    if own is not None:  # else it was closed again already, and whoever reads will see it
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEP_ALIVE:
            own.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
