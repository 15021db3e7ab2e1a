"""One request to the API server: proved, bounded in time, asked again where that is safe, and its no or its silence in words."""
import asyncio
import itertools
import json
import random
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.access import Access
from gpufairy.engines.kube.errors import KubeRefused, KubeSilent
from gpufairy.engines.kube.identity import Proof
from gpufairy.engines.kube.words import described, refusal

CONNECT_S, ATTEMPT_S = 10.0, 30.0
CALL_S = 60.0  # with all that is asked again; the API server itself gives up a request after 60
LEAST_S = 0.05  # with less left, a call is not begun
MOST_TRIES = 5
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 10.0
TURNS_TO_CLOSE = 3  # of the event loop: connections are only told to go, TLS first and its socket then
AT_ONCE = 60  # calls on their way; watches and logs, which stay, are not counted
TOO_MANY, UNAUTHORIZED = 429, 401
FAILED = frozenset({500, 502, 503, 504})
LARGEST_REFUSAL = 1 << 20  # bytes
# A connection on which only the other side speaks, such as a watch, is dead if the kernel gets no word from it for half a minute.
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    kind: str = "application/json"  # of the body
    name: str = ""  # of what is being made
    repeatable: bool = False  # twice does no more than once: asked again also if the answer was lost
    silence_s: float | None = None  # of an answer that goes on: the longest between two bytes; None: any

    @property
    def what(self) -> str:
        words = described(self.method, self.path, self.name)
        return words.replace("list", "watch", 1) if "watch" in self.query else words


class Http:
    def __init__(self, access: Access, program: str) -> None:
        self.access = access
        self.where = f"the API server at {urlsplit(access.server).netloc}"
        self.program = program
        self._places = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None
        self._connector: aiohttp.TCPConnector | None = None

    async def open(self) -> None:
        self._connector = connector = aiohttp.TCPConnector(limit=0, socket_factory=_kept_alive, keepalive_timeout=60)
        headers = {"User-Agent": self.program, "Accept": "application/json"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=True)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._connector is not None:
            await self._connector.close(abort_ssl=True)  # a polite end waits for the other side, and nothing is on its way
            await session.close()
            for _ in range(TURNS_TO_CLOSE):
                await asyncio.sleep(0)

    async def whole(self, call: Call) -> Any:
        """The answer, read. Raises KubeRefused, KubeSilent."""
        deadline_s = asyncio.get_running_loop().time() + CALL_S
        return await self._asked(call, lambda proof, request_id: self._read(call, proof, request_id, deadline_s), deadline_s)

    @asynccontextmanager
    async def going_on(self, call: Call) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer as it comes: a watch, a log. Raises as `whole` does."""

        async def begun(proof: Proof, request_id: str) -> aiohttp.ClientResponse:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=call.silence_s)
            async with asyncio.timeout(ATTEMPT_S):
                return await self._head(call, proof, request_id, timeout)

        response = await self._asked(call, begun, asyncio.get_running_loop().time() + CALL_S)
        try:
            yield self._chunks(call, response)
        finally:
            if response.connection is not None and response.connection.transport is not None:
                response.connection.transport.abort()  # a polite end of TLS waits for the other side, after everybody has gone
            response.close()

    async def _chunks(self, call: Call, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        with self._in_words(call):
            async for chunk in response.content.iter_any():
                yield chunk

    async def _asked(self, call: Call, attempt: Callable[[Proof, str], Awaitable[T]], deadline_s: float) -> T:
        request_id, refused = str(uuid.uuid4()), None
        for tried in itertools.count(1):
            proof = await self.proof(call.what, refused)
            try:
                with self._in_words(call):
                    return await attempt(proof, request_id)
            except KubeRefused as error:
                if error.status == UNAUTHORIZED and refused is None and await self.proof(call.what, proof) is not proof:
                    refused = proof
                    continue
                wait_s = _wait_after(error, call, tried)
                if wait_s is None or _is_last(tried, wait_s, deadline_s):
                    raise
            except KubeSilent as error:
                wait_s = growing_s(tried)
                hopeless = error.reason in ("certificate", "closed") or (error.sent and not call.repeatable)
                if hopeless or _is_last(tried, wait_s, deadline_s):
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("it counts for ever")

    async def proof(self, what: str, refused: Proof | None = None) -> Proof:
        try:
            return await self.access.identity.proof(refused)
        except BadInput as error:
            said = f"{error} So nobody was asked to {what}."
            raise KubeSilent(said, error.next_step, reason="credentials", what=what, sent=False) from error

    async def _read(self, call: Call, proof: Proof, request_id: str, deadline_s: float) -> Any:
        async with self._place(call, deadline_s) as left_s:
            timeout = aiohttp.ClientTimeout(total=min(left_s, ATTEMPT_S), sock_connect=CONNECT_S)
            async with await self._head(call, proof, request_id, timeout) as response:
                text = await response.read()
        try:
            return json.loads(text) if text else {}
        except (ValueError, RecursionError) as error:
            raise self.silent(call.what, "nonsense", f"gave an answer that is no JSON, but {text[:80]!r}", sent=True) from error

    @asynccontextmanager
    async def _place(self, call: Call, deadline_s: float) -> AsyncIterator[float]:
        """Among those on their way; the seconds that are left for it then."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._places.acquire()
        except TimeoutError as error:
            raise self._too_late(call) from error
        try:
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s < LEAST_S:
                raise self._too_late(call)
            yield left_s
        finally:
            self._places.release()

    def _too_late(self, call: Call) -> KubeSilent:
        return self.silent(call.what, "timeout", f"was not asked for {CALL_S:g} s: too many calls wait", sent=False)

    async def _head(self, call: Call, proof: Proof, request_id: str, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            raise self.silent(call.what, "closed", "was not asked: our side is closed", sent=False)
        access, headers = self.access, {**proof.headers, "Audit-Id": request_id}
        if call.body is not None:
            headers["Content-Type"] = call.kind
        response = await self._session.request(
            call.method, access.server + call.path, params=call.query, data=call.body, headers=headers, timeout=timeout,
            allow_redirects=False, ssl=True if proof.tls is None else proof.tls, server_hostname=access.server_name, proxy=access.proxy,
        )  # fmt: skip
        if response.status < 300:
            return response
        async with response:
            body = await response.content.read(LARGEST_REFUSAL)
        raise refusal(
            response.status, body, what=call.what, where=self.where, who=access.words,
            request_id=response.headers.get("Audit-Id", request_id), retry_after_s=_seconds(response.headers.get("Retry-After")),
        )  # fmt: skip

    @contextmanager
    def _in_words(self, call: Call) -> Iterator[None]:
        """Foreign errors end here."""
        try:
            yield
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise self.not_trusted(call.what, error) from error
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.ConnectionTimeoutError) as error:
            raise self.silent(call.what, "unreachable", f"cannot be reached ({getattr(error, 'os_error', error)})", sent=False) from error
        except TimeoutError as error:  # aiohttp's are such too
            raise self.silent(call.what, "timeout", "gave no answer in time", sent=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self.silent(call.what, "cut", f"broke off ({error or type(error).__name__})", sent=True) from error

    def not_trusted(self, what: str, error: Exception) -> KubeSilent:
        return self.silent(what, "certificate", f"shows a certificate that {self.access.words} does not trust ({error})", sent=False)

    def silent(self, what: str, reason: str, words: str, *, sent: bool) -> KubeSilent:
        whole = f"{self.where} {words}, when asked to {what}."
        return KubeSilent(whole[0].upper() + whole[1:], NEXT[reason], reason=reason, what=what, sent=sent)


NEXT = {
    "certificate": "Is the certificate-authority that of this cluster, and the server's name right?",
    "unreachable": "Does the API server run, and is its address right? Nothing was done.",
    "timeout": "It may have been done or not: look, then try again.",
    "cut": "It may have been done or not: look, then try again.",
    "nonsense": "Is that address an API server of Kubernetes, and not something before it?",
    "closed": "",
}


def _wait_after(error: KubeRefused, call: Call, tried: int) -> float | None:
    """None: to be believed. 429 was not even begun; of the others, one that says when to come again, or may be asked twice."""
    asked_again = error.retry_after_s is not None
    if asked_again and (error.status == TOO_MANY or (error.status in FAILED and call.repeatable)):
        assert error.retry_after_s is not None
        return min(error.retry_after_s, LONGEST_WAIT_S) * (1 + random.random() / 4)
    return growing_s(tried) if error.status in FAILED - {500} and call.repeatable else None


def growing_s(tried: int, longest_s: float = LONGEST_WAIT_S) -> float:
    """With a part of chance, so that those who were cut off together do not come back together."""
    return min(FIRST_WAIT_S * 2.0 ** min(tried - 1, 20), longest_s) * random.uniform(0.75, 1.25)


def _is_last(tried: int, wait_s: float, deadline_s: float) -> bool:
    return tried >= MOST_TRIES or asyncio.get_running_loop().time() + wait_s > deadline_s


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() and len(text) < 6 else None


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
