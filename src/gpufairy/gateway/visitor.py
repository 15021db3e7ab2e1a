"""Visitor: one client from its first packet to its last; what it may open, and what is refused, in words."""
import asyncio
import hashlib
import logging
from base64 import b64encode
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import asyncssh

from gpufairy.core.amounts import show_duration, shown
from gpufairy.core.errors import FairyError
from gpufairy.core.limits import Limit
from gpufairy.core.names import SESSION_NAME
from gpufairy.core.purpose import Purpose
from gpufairy.engines.doors import connect_door
from gpufairy.gateway.connection import Connection, Owner
from gpufairy.gateway.forwards import Forward
from gpufairy.gateway.gate import Gate
from gpufairy.gateway.login import Login
from gpufairy.gateway.seam import Entry
from gpufairy.gateway.sessions import SessionProcess
from gpufairy.gateway.words import printable

log = logging.getLogger("gpufairy.gateway")

OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
FRESH_S = 2.0  # a browser opens a dozen forwards at once: they share one question about the door
ONLY_OWN = "forwards lead into your own session alone: name localhost as the target"


class Visitor(Owner):
    login: Login
    key: bytes

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._came_at = self._loop.time()
        self._notes: list[str] = []  # of what was refused, for the next terminal
        self._complained: set[str] = set()  # logged once a connection, or a hostile one fills the disk
        self._door: tuple[float, asyncio.Task[Entry]] | None = None
        self._session_name: str | None = None
        self._in = False

    def connection_made(self, conn: Any) -> None:
        self.connection: Connection = conn
        self.source = str((conn.get_extra_info("peername") or ("nowhere",))[0])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._door is not None:
            self._door[1].cancel()  # nobody waits for it any more
        if self._in:
            self._in = False
            self._gate.left(self)
            log.info("%s left after %s", self.name, show_duration(timedelta(seconds=self._loop.time() - self._came_at)))

    @property
    def name(self) -> str:
        return f"{self.login} from {self.source} by {fingerprint(self.key)}"

    # Signing in: the connection has read the name and checked the signature.

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def knows(self, key: bytes) -> bool:
        login = self.connection.login
        if login is None:
            return False
        if not self._gate.has_roster and not await self._waited_for_roster():
            return False
        return self._gate.knows(login.user, key)

    async def _waited_for_roster(self) -> bool:
        self._complain("no server", "asked to sign in while no server answers")
        self.connection.send_auth_banner("fairy: the server is restarting; please wait\r\n")
        if await self._gate.roster_came():
            return True
        self.connection.disconnect(asyncssh.DISC_SERVICE_NOT_AVAILABLE, "the server does not answer; try again in a minute")
        return False

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        login = self.connection.login
        return login is not None and self._gate.knows(login.user, key.public_data)

    def auth_completed(self) -> None:
        login, key = self.connection.login, self.connection.signed_by
        if login is None or key is None or not self._gate.knows(login.user, key):
            self.connection.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "not signed in")
            return
        self.login, self.key = login, key
        if not self._gate.room_for(login.user):
            most = self._gate.settings.most_per_user
            self._gate.refusals.count(Limit.SSH_CONNECTIONS_PER_USER)
            log.warning("%s was sent away: %d connections are open", self.name, most)
            self.connection.disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, f"{login.user} has {most} connections open, close some first")
            return
        self._in = True
        self._gate.came(self)
        log.info("%s came in", self.name)

    def odd_name(self, sent: bytes) -> None:
        self._complain("name", f"gave a name that nobody can have: {shown(sent[:200].decode('utf-8', 'backslashreplace'))}")

    def turn_out(self, words: str) -> None:
        log.info("%s is sent away: %s", self.name, words)
        self.connection.send_away(printable(words))

    # Sessions.

    def session_requested(self) -> Any:
        window = self._window()
        return self.connection.create_server_channel(window=window), SessionProcess(self._gate, self)

    def take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def entered(self, entry: Entry, what: str) -> None:
        self._session_name = entry.session_name or self._session_name
        log.info("%s: %s in %s", self.name, what, entry.session_name or "their folders")

    def _window(self) -> int:
        if not self._in:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "not signed in")
        most = self._gate.settings.most_channels
        if self.connection.channel_count >= most:
            self._gate.refusals.count(Limit.SSH_CHANNELS)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_RESOURCE_SHORTAGE, f"{most} channels are open here, close some first")
        return self._gate.window_for(self.login.user)

    @property
    def channel_count(self) -> int:
        return self.connection.channel_count

    # Forwards.

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        own = dest_host.lower() in OWN_HOSTS or dest_host in self._own_names()
        if not own or not 0 < dest_port < 65536:
            self._complain("forward", f"was refused a forward to {shown(dest_host)} port {dest_port}")
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, ONLY_OWN)
        channel = self.connection.tcp_channel(self._window())
        return channel, self._forward(dest_port)

    def unix_connection_requested(self, dest_path: str) -> Any:
        if not dest_path.startswith("/") or "\0" in dest_path or len(dest_path.encode()) > 107:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "name a socket by its whole path, of 107 bytes at most")
        channel = self.connection.unix_channel(self._window())
        return channel, self._forward(dest_path)

    def _own_names(self) -> set[str]:
        return {name for name in (self.login.session, self._session_name) if name and SESSION_NAME.fullmatch(name)}

    async def _forward(self, where: int | str) -> Forward:
        try:
            async with asyncio.timeout(self._gate.settings.away_s):
                link = await connect_door((await self._entry()).door, where)
        except FairyError as error:
            self._door = None
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, printable(error.detail)) from error
        except TimeoutError:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "your session has not started yet") from None
        if not self._in:  # gone meanwhile: nobody would close it
            link.close()
        return Forward(link, self.connection)

    def _entry(self) -> Awaitable[Entry]:
        """Shared by those who ask at about the same time; each may give up alone."""
        now = self._loop.time()
        if self._door is None or (self._door[1].done() and now - self._door[0] > FRESH_S) or self._failed(self._door[1]):
            task = self._loop.create_task(self._gate.knocks.enter(self.login, Purpose.SHELL, lambda _: None))
            task.add_done_callback(self._failed)
            self._door = (now, task)
        return asyncio.shield(self._door[1])

    @staticmethod
    def _failed(task: asyncio.Task[Entry]) -> bool:
        return task.done() and (task.cancelled() or task.exception() is not None)

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        self.refused("-R is off here: a session opens no ports on your side")
        return False

    def unix_server_requested(self, listen_path: str) -> bool:
        return self.server_requested("", 0)

    def tun_requested(self, unit: int | None) -> Any:
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "tunnels are off here; use -L or -D")

    tap_requested = tun_requested

    def refused(self, words: str) -> None:
        self._complain(words, f"was refused: {words}")
        if len(self._notes) < 5 and words not in self._notes:
            self._notes.append(words)

    def _complain(self, kind: str, words: str) -> None:
        if kind not in self._complained:
            self._complained.add(kind)
            log.warning("%s %s", self.name if self._in else self.source, words)


def fingerprint(key: bytes) -> str:
    return "SHA256:" + b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
