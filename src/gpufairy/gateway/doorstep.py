"""Doorstep: strangers from the accepted connection to the first line of SSH, cheaply; then it is a matter of turns.

Whoever only stands there costs a descriptor, and makes room when there are too many.
"""
import asyncio
import contextlib
import logging
import socket
from collections import OrderedDict

from gpufairy.core.limits import Limit, Refusals
from gpufairy.core.source import source_of
from gpufairy.gateway.options import VERSION
from gpufairy.gateway.settings import GatewaySettings
from gpufairy.gateway.turns import Entrant, LetIn, Stranger, Turns

log = logging.getLogger("gpufairy.gateway")

HELLO = f"SSH-2.0-{VERSION}\r\n".encode()
LONGEST_LINE = 255  # RFC 4253
SMALLEST_PACKET, LARGEST_PACKET = 12, 8 * 2**10  # of a client's first, which has about 1.5 KiB
BEGINNINGS = (b"SSH-2.0-", b"SSH-1.99-")
AT_ONCE = 64  # accepted in one go, before those who are in get their turn
LOOK_EVERY_S = 0.25  # for those whose time is up, while there are any
NO_DESCRIPTORS_S = 1.0  # a rest from accepting, when there are none left
DISCONNECT, KEXINIT, TOO_MANY_CONNECTIONS = 1, 20, 12  # RFC 4253
BUSY_WORDS = "too many connections wait to sign in here; try again in a moment"


class Doorstep:
    def __init__(self, listener: socket.socket, settings: GatewaySettings, let_in: LetIn, refusals: Refusals) -> None:
        self._listener, self._settings, self._refusals = listener, settings, refusals
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(settings, self._entering(let_in), refusals)
        self._waiting: OrderedDict[Stranger, None] = OrderedDict()  # all whose turn has not come, the oldest first
        self._waiting_of: dict[str, OrderedDict[Stranger, None]] = {}  # the same by source
        self._look: asyncio.TimerHandle | None = None
        self._listening = True
        self._loop.add_reader(listener, self._accept)

    @property
    def busy(self) -> bool:
        return self._turns.busy

    @property
    def strangers(self) -> int:
        return len(self._waiting) + self._turns.count

    def close(self) -> None:
        """No new ones. Those who are signing in may go on."""
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._listener)
            self._listener.close()
            for stranger in list(self._waiting):
                self._send_away(stranger)

    def done(self, stranger: Stranger) -> None:
        """Signed in, or gone."""
        self._turns.done(stranger, self._loop.time())

    def _entering(self, let_in: LetIn) -> LetIn:
        def enter(stranger: Stranger) -> Entrant:
            self._loop.remove_reader(stranger.link)
            self._forget(stranger)
            return let_in(stranger)

        return enter

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
            self._welcome(link, address[0] if isinstance(address, tuple) else str(address))

    def _rest(self) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(NO_DESCRIPTORS_S, lambda: self._listening and self._loop.add_reader(self._listener, self._accept))

    def _welcome(self, link: socket.socket, host: str) -> None:
        link.setblocking(False)
        try:
            link.send(HELLO)
        except OSError:  # gone already
            link.close()
            return
        stranger = Stranger(link, source_of(host), self._loop.time())
        theirs = self._waiting_of.setdefault(stranger.source, OrderedDict())
        self._waiting[stranger] = theirs[stranger] = None
        self._loop.add_reader(link, self._spoke, stranger)
        if len(theirs) > self._settings.most_waiting_per_source and not self._settings.trusted.has(host):
            self._send_away(next(iter(theirs)), Limit.SSH_WAITING_PER_SOURCE)
        if len(self._waiting) > self._settings.most_waiting:
            self._send_away(next(iter(self._waiting)), Limit.SSH_WAITING)
        self._look_later()

    def _spoke(self, stranger: Stranger) -> None:
        most = LONGEST_LINE if b"\n" not in stranger.said else LONGEST_LINE + LARGEST_PACKET
        try:
            more = stranger.link.recv(most - len(stranger.said))
        except BlockingIOError:
            return
        except OSError:
            more = b""
        had_line = b"\n" in stranger.said
        stranger.said += more
        wrong = not any(stranger.said.startswith(begin[: len(stranger.said)]) for begin in BEGINNINGS)
        line, newline, packet = stranger.said.partition(b"\n")
        if not more or wrong or (not newline and len(line) >= LONGEST_LINE) or is_nonsense(packet):
            self._send_away(stranger)
            return
        if newline:
            stranger.is_eager = begins_exchange(packet)
            if stranger.is_eager or not had_line:
                self._turns.line_up(stranger, self._loop.time())
            if stranger in self._waiting and stranger.is_eager:
                self._loop.remove_reader(stranger.link)  # the rest is for whoever lets it in

    def _send_away(self, stranger: Stranger, limit: Limit | None = None) -> None:
        """One whose turn has not come."""
        self._forget(stranger)
        self._turns.leave_line(stranger)
        self._loop.remove_reader(stranger.link)
        if limit is not None:
            self._refusals.count(limit)
            if b"\n" in stranger.said:
                say_goodbye(stranger.link)
        stranger.link.close()

    def _forget(self, stranger: Stranger) -> None:
        self._waiting.pop(stranger, None)
        theirs = self._waiting_of.get(stranger.source)
        if theirs is not None and stranger in theirs:
            del theirs[stranger]
            if not theirs:
                del self._waiting_of[stranger.source]

    def _look_later(self) -> None:
        if self._look is None:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._look_round)

    def _look_round(self) -> None:
        self._look = None
        now = self._loop.time()
        while self._waiting and (oldest := next(iter(self._waiting))).came_at < now - self._settings.login_grace_s:
            self._send_away(oldest, Limit.SSH_LOGIN_TIME)
        self._turns.look_round(now)
        if self._waiting or not self._turns.idle:
            self._look_later()


def is_nonsense(packet: bytes) -> bool:
    """No client begins with a packet so small or so large."""
    return len(packet) >= 4 and not SMALLEST_PACKET <= int.from_bytes(packet[:4], "big") <= LARGEST_PACKET - 4


def begins_exchange(packet: bytes) -> bool:
    """A whole packet, with what clients want of a key exchange: few who only stand there go so far."""
    return len(packet) > 5 and packet[5] == KEXINIT and len(packet) >= 4 + int.from_bytes(packet[:4], "big")


def say_goodbye(link: socket.socket) -> None:
    """In a packet that every client shows, as far as the line takes it."""
    words = BUSY_WORDS.encode()
    payload = bytes([DISCONNECT]) + TOO_MANY_CONNECTIONS.to_bytes(4, "big") + len(words).to_bytes(4, "big") + words + bytes(4)
    with contextlib.suppress(OSError):  # gone, or it does not read
        link.send(packet_of(payload))


def packet_of(payload: bytes) -> bytes:
    """As RFC 4253 has it before there are keys: padded to a multiple of eight, by four bytes or more."""
    padding = 4 + -(len(payload) + 5 + 4) % 8
    return (1 + len(payload) + padding).to_bytes(4, "big") + bytes([padding]) + payload + bytes(padding)
