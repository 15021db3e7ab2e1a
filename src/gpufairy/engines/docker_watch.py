"""The daemon's own news of our containers, so that an end is seen at once. Lost connections are made again, with growing pauses."""
import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from gpufairy.core.errors import FairyError
from gpufairy.engines.docker_daemon import Daemon

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
LARGEST_LINE = 2**24  # bytes: an event carries all labels of its container

log = logging.getLogger(__name__)


class Watch:
    """`on_news` is called with a container's id; `on_back` when a connection stands again that was lost."""

    def __init__(self, daemon: Daemon, server_id: str, on_news: Callable[[str], None], on_back: Callable[[], Awaitable[None]]) -> None:
        self._daemon, self._server_id = daemon, server_id
        self._on_news, self._on_back = on_news, on_back
        self._lost = False

    async def run(self) -> None:
        pause_s = SHORTEST_PAUSE_S
        while True:
            try:
                async for container_id in self._news():
                    pause_s = SHORTEST_PAUSE_S
                    self._on_news(container_id)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError, FairyError) as error:
                log.warning("the container engine at %s tells no news, asked again in %g s: %s", self._daemon.path, pause_s, error)
            self._lost = True
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    async def _news(self) -> AsyncIterator[str]:
        filters = json.dumps({"type": ["container"], "label": [f"gpufairy.server={self._server_id}"]})
        endless = aiohttp.ClientTimeout(total=None, sock_connect=5)
        url = f"http://localhost/{self._daemon.docker.api_version}/events"
        async with self._daemon.docker.session.get(url, params={"filters": filters, "stream": "true"}, timeout=endless) as answer:
            answer.raise_for_status()
            if self._lost:
                await self._on_back()
                self._lost = False
            self._on_news("")  # whatever came before this stood, nobody told us
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield container_id(line)
                if len(rest) > LARGEST_LINE:
                    raise ValueError("an event without an end")


def container_id(line: bytes) -> str:
    event = json.loads(line)
    actor = event.get("Actor") if isinstance(event, dict) else None
    return str(actor.get("ID", "")) if isinstance(actor, dict) else ""
