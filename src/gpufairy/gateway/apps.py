"""Apps of sessions in the browser, served beside SSH by the same process: a restart of the server cuts no notebook."""
import asyncio
import contextlib
import logging
import socket
from collections import Counter

import h11

from gpufairy.core.errors import BadInput, Conflict
from gpufairy.gateway.apps_house import AppsHouse, HttpAppsHouse
from gpufairy.gateway.apps_jar import CookieJar
from gpufairy.gateway.apps_peer import READ_BYTES, Peer
from gpufairy.gateway.apps_street import Street
from gpufairy.gateway.apps_visit import Visit
from gpufairy.gateway.listening import Words, bound
from gpufairy.gateway.settings import GatewaySettings

log = logging.getLogger("gpufairy.gateway.apps")

MOST_STRANGERS = 1024  # connections that are not signed in: each has 15 s to become so
MOST_STRANGERS_OF_ONE = 128  # from one address, or it would keep all others out
WORDS = Words("apps port", "Stop what listens there, or change [apps] in fairy.toml.", "Check [apps] in fairy.toml.")
TRY_PORT_EVERY_S = 0.1  # the gateway before us lets go of it in a moment


class AppsDoor:
    def __init__(self, settings: GatewaySettings, house: AppsHouse | None = None) -> None:
        self._settings = settings
        self._street = Street(house or HttpAppsHouse(settings.data, settings.token_file), CookieJar(settings.folder / "apps.json"))
        self._servers: dict[int, asyncio.Server] = {}
        self._complained: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.empty = asyncio.Event()  # nobody visits
        self.empty.set()

    async def serve(self) -> None:
        """Until cancelled: follows what is open, and listens for just that."""
        following = asyncio.create_task(self._street.follow())
        try:
            while True:
                news = asyncio.ensure_future(self._street.news.wait())
                all_open = await self._listen_for(self._street.ports)
                await asyncio.wait([news, following], timeout=None if all_open else TRY_PORT_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if following.done():
                    following.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _listen_for(self, ports: set[int]) -> bool:
        """Whether all of them are listened on now."""
        if self._street.closing:
            return True
        for port in self._servers.keys() - ports:
            self._servers.pop(port).close()
        for port in ports - self._servers.keys():
            try:
                listener = bound(self._settings.listen, port, WORDS)
            except (Conflict, BadInput) as error:
                if port not in self._complained:
                    log.warning("%s", error)
                    self._complained.add(port)
                continue
            self._complained.discard(port)
            self._servers[port] = await asyncio.start_server(self._visited, sock=listener, limit=READ_BYTES)
        return ports <= self._servers.keys()

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer, h11.SERVER)
        if self._is_crowded(peer.source):
            peer.abort()
            return
        self._keep_alive(writer.get_extra_info("socket"))
        visit = Visit(self._street, peer, int(writer.get_extra_info("sockname")[1]))
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._street.visits.add(visit)
        self.empty.clear()
        try:
            await visit.run()
        finally:
            self._tasks.discard(task)
            self._street.visits.discard(visit)
            if not self._street.visits:
                self.empty.set()

    def _is_crowded(self, source: str) -> bool:
        strangers = Counter(visit.source for visit in self._street.visits if visit.stall is None)
        return strangers.total() >= MOST_STRANGERS or strangers[source] >= MOST_STRANGERS_OF_ONE

    def _keep_alive(self, link: socket.socket) -> None:
        """So that browsers which vanish are noticed, at no cost of ours."""
        settings = self._settings
        with contextlib.suppress(OSError):  # gone already
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.alive_after_s)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, settings.alive_every_s)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, settings.alive_count)

    def drain(self) -> None:
        """No new visitors; those who are in stay as long as they like."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        self._street.close()

    async def close(self) -> None:
        self.drain()
        for visit in list(self._street.visits):
            visit.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._street.house.close()
