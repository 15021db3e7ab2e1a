"""Apps: opened for their owners, each at an origin of its own (a stall), and told to the gateway, which serves them.

Stalls are written down, so that a restarted server gives no origin to another while a browser still has it open.
"""
import asyncio
import contextlib
import hashlib
import json
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from gpufairy.control.alter import running
from gpufairy.control.app_start import Inside, answers, came_up, last_words, start
from gpufairy.control.bell import rung
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.control.tickets import Ticket, Tickets
from gpufairy.core.apps import App, Stall, app_named, host_label
from gpufairy.core.errors import Conflict, EngineRefused, NotAllowed, QuotaExceeded
from gpufairy.core.session import Session
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import DoorKind
from gpufairy.engines.run_folder import write_private

LOOK_S = 1.0  # whoever was shut out is gone from the gateway's table after this
TOKENS = "tokens"  # beside the fields of a stall in the file
LISTENS_LIMIT_S = 5.0  # for the gateway to hear of a new stall and to listen for it
# Each takes a port of all users' where there is no domain, and a listening socket of the gateway's.
MOST_OF_A_SESSION = 8
MOST_OF_A_USER = 16
BY_SSH = "Stop a session that has some, or reach the port by `ssh -L`."


@dataclass(frozen=True, slots=True)
class AppsSettings:
    url: str  # how people reach the server
    listen: str  # where the gateway listens
    ports: range
    domain: str | None = None
    port: int = 8423  # with a domain, for all of them


@dataclass(frozen=True, slots=True)
class OpenNow:
    """What the gateway is told."""

    revision: str  # the same for the same content, also by another server
    stalls: list[Stall]
    gone_tokens: list[str]  # that opened one of these, and are good no longer: whoever came in by them must go


@dataclass(frozen=True, slots=True)
class Opened:
    app: App
    stall: Stall
    url: str  # with a ticket in it
    ready: bool  # else it is starting


class Apps:
    def __init__(self, house: House, settings: AppsSettings, path: Path) -> None:
        self._house, self._settings, self._path = house, settings, path
        found = read_stalls(path)
        self._stalls: dict[str, Stall] = {stall.id: stall for stall, _ in found}
        self._tokens: dict[str, set[str]] = {stall.id: tokens for stall, tokens in found}  # by stall: ids of those that opened it
        self._tickets = Tickets(house.clock)
        self._pids: dict[str, int] = {}  # by stall: of apps that this server started
        self._starting: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def open(self, caller: Caller, session: Session, wanted: str, wait_s: float) -> Opened:
        """Starts the app if need be, and waits so long for it to answer."""
        app = app_named(wanted)
        if session.owner != caller.user.name:
            raise NotAllowed(f"session {session.name} is {session.owner}'s, and apps open for the owner alone", "Start one of your own.")
        session = running(self._house, session)
        lock = self._starting.setdefault((session.id, app.name), asyncio.Lock())
        async with lock:  # two clicks start one app
            door = await self._house.engine.door(workload_id(session))
            with contextlib.ExitStack() as on_failure:
                stall = self._stall_of(session, app)
                if stall is None:
                    stall = self._new_stall(session, app, door.kind)
                    on_failure.callback(self._remove, stall)
                inside = Inside(workload_id(session), session.name, door.shell, stall.inside)
                ready = await self._started(stall, inside, app, wait_s)
                on_failure.pop_all()
        await self._listened(stall)
        return Opened(app, stall, self._address(stall, self._tickets.make(stall.id, caller.token_id)), ready)

    def redeem(self, ticket: str, stall_id: str) -> Ticket | None:
        """None: it is not good. Which token it came by is written down before anybody is let in, so that it can be taken back."""
        used = self._tickets.use(ticket, stall_id)
        stall = next((stall for stall in self.open_now() if stall.id == stall_id), None)
        if used is None or stall is None:
            return None
        if used.token_id is not None:
            if used.token_id not in self._house.registry.good_tokens():
                return None
            if used.token_id not in self._tokens.setdefault(stall_id, set()):
                self._tokens[stall_id].add(used.token_id)
                self._written(stall.session_id)
        return used

    def open_now(self) -> list[Stall]:
        """Those of sessions that live, and of owners who are not shut out."""
        allowed = {user.name for user in self._house.registry.users() if not user.disabled}
        return [stall for stall in self._stalls.values() if self._lives(stall) and stall.owner in allowed]

    def told(self) -> OpenNow:
        stalls = sorted(self.open_now(), key=lambda stall: stall.id)
        used = {token for stall in stalls for token in self._tokens.get(stall.id, ())}
        gone = sorted(used - self._house.registry.good_tokens()) if used else []
        content = json.dumps([[stall.id for stall in stalls], gone])
        return OpenNow(hashlib.sha256(content.encode()).hexdigest()[:16], stalls, gone)

    async def after(self, revision: str, wait_s: float) -> OpenNow:
        """All there are, when they differ from that revision, or the time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        with self._house.bells.listen(None) as bell:
            while True:
                bell.clear()
                now = self.told()
                left_s = until - loop.time()
                if now.revision != revision or left_s <= 0 or self._house.bells.leaving.is_set():
                    return now
                await rung(bell, min(left_s, LOOK_S))

    def _lives(self, stall: Stall) -> bool:
        session = self._house.book.get(stall.session_id)
        return session is not None and session.attempt == stall.attempt

    def _stall_of(self, session: Session, app: App) -> Stall | None:
        mine = (session.id, session.attempt, app.name)
        return next((one for one in self._stalls.values() if (one.session_id, one.attempt, one.app) == mine), None)

    def _new_stall(self, session: Session, app: App, kind: DoorKind) -> Stall:
        self._stalls = {stall.id: stall for stall in self._stalls.values() if self._lives(stall)}
        self._pids = {key: pid for key, pid in self._pids.items() if key in self._stalls}
        self._tokens = {key: tokens for key, tokens in self._tokens.items() if key in self._stalls}
        self._check_room(session)
        numbers = {stall.number for stall in self._stalls.values() if stall.session_id == session.id}
        number = next(number for number in range(1, len(numbers) + 2) if number not in numbers)
        domain = self._settings.domain
        host = None if domain is None else f"{host_label(session.name, session.owner, number)}.{domain}"
        port = self._settings.port if domain is not None else self._free_port()
        # Sessions that share this machine's loopback cannot all have the port that an app is known for.
        inside = any_free_port() if kind is DoorKind.PROCESS and app.programs else app.port
        stall = Stall(
            secrets.token_hex(8), session.id, session.attempt, session.owner, session.name, app.name, number, inside, port, host
        )  # fmt: skip
        self._stalls[stall.id] = stall
        self._written(session.id)
        return stall

    def _check_room(self, session: Session) -> None:
        """Raises QuotaExceeded."""
        theirs = [stall for stall in self._stalls.values() if stall.owner == session.owner]
        here = [stall.app for stall in theirs if stall.session_id == session.id]
        if len(here) >= MOST_OF_A_SESSION:
            raise QuotaExceeded(f"session {session.name} has {len(here)} apps open, as many as one may: {', '.join(here)}", BY_SSH)
        if len(theirs) >= MOST_OF_A_USER:
            raise QuotaExceeded(f"{session.owner} has {len(theirs)} apps open in all sessions, as many as one may", BY_SSH)

    def _remove(self, stall: Stall) -> None:
        self._stalls.pop(stall.id, None)
        self._written(stall.session_id)

    def _written(self, session_id: str) -> None:
        plain = [{**asdict(stall), TOKENS: sorted(self._tokens.get(stall.id, ()))} for stall in self._stalls.values()]
        write_private(self._path, json.dumps(plain))
        self._house.bells.sessions_changed([session_id])

    def _free_port(self) -> int:
        taken, ports = {stall.port for stall in self._stalls.values()}, self._settings.ports
        for port in ports:
            if port not in taken and is_free(self._settings.listen, port):
                return port
        found = f"all ports from {ports[0]} to {ports[-1]} are taken, by {len(taken)} apps of sessions and by others"
        raise Conflict(found, "Stop a session that has apps open, or ask an admin for more (apps.ports, or better apps.domain).")

    async def _started(self, stall: Stall, inside: Inside, app: App, wait_s: float) -> bool:
        engine = self._house.engine
        try:
            if await answers(engine, inside):
                return True
            if not app.programs:
                return False
            pid = self._pids.get(stall.id)
            if pid is None or await last_words(engine, inside, app, pid) is not None:
                pid = self._pids[stall.id] = await start(engine, inside, app)
            return await came_up(engine, inside, app, pid, wait_s)
        except EngineRefused as error:
            raise Conflict(f"{app.title} cannot be started in session {inside.session}: {error}", error.next_step) from error

    async def _listened(self, stall: Stall) -> None:
        """The address is given only when somebody is there to answer it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self._settings.listen, self._settings.listen)
        until = asyncio.get_running_loop().time() + LISTENS_LIMIT_S
        while not await accepts(host, stall.port):
            if asyncio.get_running_loop().time() > until:
                found = f"the gateway does not listen on port {stall.port}"
                raise Conflict(found, "Try again; if it stays so, ask an admin to look into ssh/gateway.log in the data folder.")
            await asyncio.sleep(0.02)

    def _address(self, stall: Stall, ticket: str) -> str:
        server = urlsplit(self._settings.url)
        if stall.host is None:
            host = server.hostname or "127.0.0.1"
            return f"http://{f'[{host}]' if ':' in host else host}:{stall.port}/?ticket={ticket}"
        # Behind a proxy that speaks TLS for the server, it does for the apps as well, on the usual port.
        origin = f"https://{stall.host}" if server.scheme == "https" else f"http://{stall.host}:{stall.port}"
        return f"{origin}/?ticket={ticket}"


def read_stalls(path: Path) -> list[tuple[Stall, set[str]]]:
    """With the tokens that opened each. None, if it was never written or cannot be read: then apps are opened anew."""
    try:
        return [(stall_from(plain), set(map(str, plain.get(TOKENS, ())))) for plain in json.loads(path.read_bytes())]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def stall_from(plain: Mapping[str, Any]) -> Stall:
    return Stall(**{name: plain[name] for name in Stall.__dataclass_fields__})


def is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError:
            return False
    return True


def any_free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


async def accepts(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
