"""Doorstep: strangers from the accepted connection to the first line of SSH, cheaply, and then a few at a time to sign in.

Whoever only stands there costs a descriptor; whoever dawdles makes room when others wait.
"""
import asyncio
import logging
import socket
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gpufairy.gateway.options import VERSION
from gpufairy.gateway.settings import GatewaySettings

log = logging.getLogger("gpufairy.gateway")

HELLO = f"SSH-2.0-{VERSION}\r\n".encode()
LONGEST_LINE = 255  # RFC 4253
BEGINNINGS = (b"SSH-2.0-", b"SSH-1.99-")
AT_ONCE = 64  # accepted in one go, before those who are in get their turn
LOOK_EVERY_S = 0.25  # for those whose time is up, while there are any
NO_DESCRIPTORS_S = 1.0  # a rest from accepting, when there are none left


@dataclass(eq=False, slots=True)
class Stranger:
    link: socket.socket
    source: str
    came_at: float
    said: bytes = b""
    entrant: "Entrant | None" = field(default=None, repr=False)  # once inside


class Entrant(Protocol):
    """A connection that signs in."""

    heard_at: float

    def abort(self) -> None: ...


LetIn = Callable[[Stranger], Entrant]


class Doorstep:
    def __init__(self, listener: socket.socket, settings: GatewaySettings, let_in: LetIn) -> None:
        self._listener, self._settings, self._let_in = listener, settings, let_in
        self._loop = asyncio.get_running_loop()
        self._standing: OrderedDict[Stranger, None] = OrderedDict()  # have not said their line
        self._queues: OrderedDict[str, deque[Stranger]] = OrderedDict()  # have, by source: each source in turn
        self._inside: OrderedDict[Stranger, None] = OrderedDict()  # are signing in
        self._inside_of: dict[str, int] = defaultdict(int)
        self._look: asyncio.TimerHandle | None = None
        self._listening = True
        self._loop.add_reader(listener, self._accept)

    @property
    def busy(self) -> bool:
        return bool(self._inside)

    def close(self) -> None:
        """No new ones. Those who are signing in may go on."""
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._listener)
            self._listener.close()
            for stranger in [*self._standing, *(one for queue in self._queues.values() for one in queue)]:
                self._send_away(stranger)

    def done(self, stranger: Stranger) -> None:
        """Signed in, or gone."""
        if stranger in self._inside:
            del self._inside[stranger]
            self._inside_of[stranger.source] -= 1
            if not self._inside_of[stranger.source]:
                del self._inside_of[stranger.source]
            self._next()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                link, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted: %s", error)
                self._rest()
                return
            self._welcome(link, source_of(address))

    def _rest(self) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(NO_DESCRIPTORS_S, lambda: self._listening and self._loop.add_reader(self._listener, self._accept))

    def _welcome(self, link: socket.socket, source: str) -> None:
        link.setblocking(False)
        try:
            link.send(HELLO)
        except OSError:  # gone already
            link.close()
            return
        stranger = Stranger(link, source, self._loop.time())
        self._standing[stranger] = None
        self._loop.add_reader(link, self._spoke, stranger)
        if len(self._standing) > self._settings.most_on_doorstep:
            self._send_away(next(iter(self._standing)))
        self._look_later()

    def _spoke(self, stranger: Stranger) -> None:
        try:
            more = stranger.link.recv(LONGEST_LINE - len(stranger.said))
        except BlockingIOError:
            return
        except OSError:
            more = b""
        stranger.said += more
        wrong = not any(stranger.said.startswith(begin[: len(stranger.said)]) for begin in BEGINNINGS)
        whole = b"\n" in stranger.said
        if not more or wrong or (not whole and len(stranger.said) >= LONGEST_LINE):
            self._send_away(stranger)
        elif whole:
            self._loop.remove_reader(stranger.link)
            del self._standing[stranger]
            self._queues.setdefault(stranger.source, deque()).append(stranger)
            self._next()

    def _next(self) -> None:
        """Lets in as many as there is room for, one of each source in turn."""
        while len(self._inside) < self._settings.most_signing_in:
            source = next((s for s in self._queues if self._inside_of.get(s, 0) < self._settings.most_signing_in_per_source), None)
            if source is None:
                return
            queue = self._queues[source]
            stranger = queue.popleft()
            self._queues.move_to_end(source)
            if not queue:
                del self._queues[source]
            self._inside[stranger] = None
            self._inside_of[source] += 1
            stranger.entrant = self._let_in(stranger)

    def _send_away(self, stranger: Stranger) -> None:
        """One who is not inside."""
        self._standing.pop(stranger, None)
        queue = self._queues.get(stranger.source)
        if queue is not None and stranger in queue:
            queue.remove(stranger)
            if not queue:
                del self._queues[stranger.source]
        self._loop.remove_reader(stranger.link)
        stranger.link.close()

    def _look_later(self) -> None:
        if self._look is None:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._look_round)

    def _look_round(self) -> None:
        self._look = None
        now = self._loop.time()
        too_old = now - self._settings.login_grace_s
        for stranger in [*self._standing, *(one for queue in self._queues.values() for one in queue)]:
            if stranger.came_at < too_old:
                self._send_away(stranger)
        for stranger in list(self._inside):
            if stranger.came_at < too_old or (self._in_the_way(stranger) and self._dawdles(stranger, now)):
                if stranger.entrant is not None:
                    stranger.entrant.abort()
                self.done(stranger)
        if self._standing or self._queues or self._inside:
            self._look_later()

    def _dawdles(self, stranger: Stranger, now: float) -> bool:
        silent = stranger.entrant is not None and now - stranger.entrant.heard_at > self._settings.silence_s
        return silent or now - stranger.came_at > self._settings.patience_s

    def _in_the_way(self, stranger: Stranger) -> bool:
        if not self._queues:
            return False
        full = len(self._inside) >= self._settings.most_signing_in
        return full or (stranger.source in self._queues and self._inside_of[stranger.source] >= self._settings.most_signing_in_per_source)


def source_of(address: tuple[str, ...] | str) -> str:
    """An IPv4 address; of IPv6 the first 64 bits, which belong to one household."""
    host = address[0] if isinstance(address, tuple) else address
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    mapped = packed[:12] == bytes(10) + b"\xff\xff"
    return socket.inet_ntoa(packed[12:]) if mapped else packed[:8].hex(":", 2)
