"""Questions to registries as the OCI distribution specification has them: proved, bounded, and each no or silence in words."""
import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import aiohttp

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.engines.registry.logins import NO_LOGINS, RegistryAccess
from gpufairy.engines.registry.proof import LOOK_AT_LOGINS, Proofs, words
from gpufairy.wire.tls import trust_machine

CONNECT_S, SILENCE_S = 10.0, 60.0  # the longest between two pieces of an answer
MOST_REDIRECTS = 5
LARGEST_REFUSAL = 2**16
REDIRECTS = frozenset({301, 302, 303, 307, 308})
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, TOO_MANY = 401, 403, 404, 405, 429


class RegistryHttp:
    """Opened at first use; close it after."""

    def __init__(self, access: RegistryAccess = NO_LOGINS) -> None:
        self.access = access
        self._session: aiohttp.ClientSession | None = None
        self._proofs: Proofs | None = None

    async def close(self) -> None:
        session, self._session, self._proofs = self._session, None, None
        if session is not None:
            await session.close()

    @asynccontextmanager
    async def asked(
        self, method: str, host: str, path: str, scope: str, *,
        headers: Mapping[str, str] | None = None, body: bytes | AsyncIterable[bytes] | None = None, fine: tuple[int, ...] = (),
    ) -> AsyncIterator[aiohttp.ClientResponse]:  # fmt: skip
        """`path`: from the root, or a whole address that the registry itself gave. Raises EngineRefused, EngineSilent.

        A body that is a stream is sent once: the question before it must have told us how to prove ourselves."""
        url, what = urljoin(self.access.address(host), path), f"registry {host}"
        repeatable = body is None or isinstance(body, bytes)
        try:
            answer = await self._sent(method, host, url, scope, headers=headers or {}, body=body)
            if answer.status == UNAUTHORIZED and repeatable:
                self._heard(host, answer)
                answer = await self._sent(method, host, url, scope, headers=headers or {}, body=body)
            async with answer:
                if answer.status >= 400 and answer.status not in fine:
                    raise await refusal(answer, what, scope)
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise EngineSilent(f"{what} does not answer: {words(error)}", "Try again; is its address right, and is it up?") from error

    def _heard(self, host: str, answer: aiohttp.ClientResponse) -> None:
        told = answer.headers.get("WWW-Authenticate", "")
        answer.release()
        self._proving().heard(host, told)

    async def _sent(
        self, method: str, host: str, url: str, scope: str, *, headers: Mapping[str, str], body: bytes | AsyncIterable[bytes] | None
    ) -> aiohttp.ClientResponse:  # fmt: skip
        """What proves who we are goes to the registry alone; where it sends us on to has proofs of its own in the address."""
        proof, home = await self._proving().headers(host, scope), urlsplit(url)
        for _ in range(MOST_REDIRECTS):
            at_home = urlsplit(url).netloc == home.netloc
            answer = await self._opened().request(
                method, url, headers={**headers, **(proof if at_home else {})}, data=body, allow_redirects=False
            )  # fmt: skip
            if answer.status not in REDIRECTS or method not in ("GET", "HEAD"):
                return answer
            answer.release()
            url = urljoin(url, answer.headers.get("Location", ""))
            if home.scheme == "https" and urlsplit(url).scheme != "https":
                raise EngineRefused(f"registry {host} sends us on to {url[:200]!r}, which is no address by TLS")
        raise EngineRefused(f"registry {host} sends us on and on", "Is its address right?")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trust_machine()), timeout=limits, trust_env=True, auto_decompress=False,
                headers={"User-Agent": "gpufairy"},
            )  # fmt: skip
        return self._session

    def _proving(self) -> Proofs:
        if self._proofs is None:
            self._proofs = Proofs(self._opened(), self.access)
        return self._proofs


async def refusal(answer: aiohttp.ClientResponse, what: str, scope: str) -> EngineRefused | EngineSilent:
    told, status = said(await answer.content.read(LARGEST_REFUSAL)), answer.status
    if status == TOO_MANY or status >= 500:
        return EngineSilent(f"{what} cannot do it now ({status}): {told}", "Try again later; its own log says more.")
    if status in (UNAUTHORIZED, FORBIDDEN):
        return EngineRefused(f"{what} does not let us do this to {scope.split(':')[1] if ':' in scope else scope}: {told}", LOOK_AT_LOGINS)
    return EngineRefused(f"{what} said no ({status}): {told}")


def said(text: bytes) -> str:
    """The registry's own words, as far as they can be read."""
    try:
        errors = json.loads(text)["errors"]
        return "; ".join(f"{one.get('code', '')} {one.get('message', '')}".strip() for one in errors)[:300]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text[:200].decode("utf-8", "replace").strip() or "without a word"
