"""The server, over HTTP: its address and our token lie in the data folder, and are read again when it has been away."""
import binascii
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from gpufairy.client.aio import AsyncFairy
from gpufairy.client.connection import read_token, read_toml
from gpufairy.client.errors import Problem, ServerNotReached
from gpufairy.client.local_server import NOTE
from gpufairy.client.protocol import ANSWER_LIMIT_S, Call, Record, path_of
from gpufairy.core.ending import Ending, Notice
from gpufairy.core.errors import BadInput, FairyError
from gpufairy.core.limits import Limit
from gpufairy.core.purpose import Purpose
from gpufairy.engines.contract import Door, DoorKind
from gpufairy.gateway.seam import Entry, Roster, Waiting

POLL_S = 25  # how long the server holds a question for news
TRY_AGAIN = "Try again; if it stays so, server and gateway are of different versions: restart both."


class Line(AsyncFairy):
    """One connection to the server, for calls that nobody else makes."""

    async def call(self, call: Call) -> Record:
        if self._http is None:
            # No bound on connections: a thousand logins may wait for their sessions at once.
            self._http = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))
        answer = await self._ask(call)
        if not isinstance(answer, dict):
            raise BadInput(f"the server answered {type(answer).__name__} to {call.path}", TRY_AGAIN)
        return answer


class HttpHouse:
    def __init__(self, data: Path, token_file: Path) -> None:
        self._data, self._token_file = data, token_file
        self._line: Line | None = None
        self._signed_in_with: tuple[str, str] | None = None
        self._in_doubt = True  # whether the server still is where it was

    async def roster(self, after: int) -> Roster:
        return read_roster(await self._call(Call("GET", path_of("gateway", "roster", after=after), limit_s=POLL_S + ANSWER_LIMIT_S)))

    async def enter(self, user: str, name: str | None, purpose: Purpose, wait_s: float) -> Entry | Waiting:
        body = {"user": user, "name": name, "purpose": str(purpose)}
        return read_entry(await self._call(Call("POST", path_of("gateway", "doors", wait=wait_s), body, limit_s=wait_s + ANSWER_LIMIT_S)))

    async def sign_in_link(self, user: str) -> str:
        return str((await self._call(Call("POST", path_of("gateway", "signin-links"), {"user": user}))).get("url", ""))

    async def tell_refusals(self, counts: Mapping[Limit, int]) -> None:
        await self._call(Call("POST", path_of("gateway", "refusals"), {"counts": {str(limit): times for limit, times in counts.items()}}))

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close()
            self._line = None

    async def _call(self, call: Call) -> Record:
        try:
            return await (await self._line_now()).call(call)
        except (ServerNotReached, Problem) as error:
            self._in_doubt |= isinstance(error, ServerNotReached) or error.status == 401
            raise

    async def _line_now(self) -> Line:
        if self._line is not None and not self._in_doubt:
            return self._line
        found = self._address_and_token()
        self._in_doubt = False
        before = self._line
        if before is not None and found == self._signed_in_with:
            return before
        line = self._line = Line(*found)
        self._signed_in_with = found
        if before is not None:
            await before.close()
        return line

    def _address_and_token(self) -> tuple[str, str]:
        try:
            noted = read_toml(self._data / NOTE) or {}
            url = noted.get("own_url", noted.get("url"))  # a server of an older version writes the one that people use
            if isinstance(url, str):
                return url, read_token(self._token_file)
        except BadInput as error:  # half a file, or none: a server is about to write it
            raise ServerNotReached(error.detail, error.next_step) from error
        raise ServerNotReached(f"no server has written its address into {self._data / NOTE}", "Start one with `fairy up`.")


def read_roster(answer: Record) -> Roster:
    try:
        keys = {str(person["name"]): frozenset(blob(key["text"]) for key in person["keys"]) for person in answer["people"]}
        endings = tuple(_ending(ending) for ending in answer["endings"])
        told = answer.get("notices", ())  # a server of an older version sends none
        notices = tuple(Notice(str(notice["session_id"]), str(notice["words"])) for notice in told)
        return Roster(int(answer["revision"]), keys, endings, notices)
    except (LookupError, TypeError, ValueError) as error:
        raise _strange("a roster", error) from error


def read_entry(answer: Record) -> Entry | Waiting:
    try:
        if answer["state"] == "waiting":
            return Waiting(str(answer["words"]))
        session = answer.get("session") or {}
        door = read_door(answer["door"])
        return Entry(door, str(session.get("id", "")), str(session.get("name", "")), str(answer.get("greeting") or ""))
    except (LookupError, TypeError, ValueError) as error:
        raise _strange("a door", error) from error


def read_door(plain: Mapping[str, Any]) -> Door:
    known: dict[str, Any] = {name: plain[name] for name in Door.__dataclass_fields__ if name in plain}
    env = known.get("env", ())
    pairs = env.items() if isinstance(env, dict) else env
    known |= {"kind": DoorKind(plain["kind"]), "env": tuple((str(name), str(value)) for name, value in pairs)}
    return Door(**known | {name: tuple(known[name]) for name in ("cpus",) if name in known})


def blob(text: str) -> bytes:
    """The middle of `ssh-ed25519 AAAA… comment`: what goes over the wire."""
    return binascii.a2b_base64(text.split()[1], strict_mode=True)


def _ending(plain: Mapping[str, Any]) -> Ending:
    return Ending(str(plain["session_id"]), str(plain["owner"]), str(plain["name"]), datetime.fromisoformat(plain["ends_at"]))


def _strange(what: str, error: Exception) -> FairyError:
    return BadInput(f"the server sent {what} that cannot be read: {type(error).__name__} {error}"[:300], TRY_AGAIN)
