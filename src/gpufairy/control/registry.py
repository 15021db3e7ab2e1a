"""Registry: who is calling, by which token, and what the token is good for. Kept in memory as the store has it, so a look costs nothing."""
import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from gpufairy.control.clock import Clock
from gpufairy.control.passes import PREFIX as PASS_PREFIX
from gpufairy.control.passes import is_gateway_pass, read_pass
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing, NotSignedIn
from gpufairy.core.names import nearest, user_name
from gpufairy.core.people import Role, Token, User
from gpufairy.core.session import Session
from gpufairy.core.team import checked_share
from gpufairy.core.uids import NO_UIDS_YET, Uids
from gpufairy.store.people import People

TOKEN_PREFIX = "fairy_"
LONGEST_TOKEN = 200
PAGE_SCOPE = "page"  # of the token in a browser's cookie: it opens pages, and nothing of the API
GATEWAY_SCOPE = "gateway"  # of the SSH gateway, which is nobody's: it asks whose key it is, and for doors
GATEWAY = User("(gateway)", Role.USER, datetime(1970, 1, 1, tzinfo=UTC))
SCOPES = ("full", "metrics", PAGE_SCOPE)
SIGN_IN_AGAIN = "Sign in with `fairy login URL`, or ask an admin for a token (fairy token create --user NAME)."


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody we know, and how they came: with a token of their own, or from inside one of their sessions."""

    user: User
    scope: str  # "full", "metrics", "page", "session" or "gateway"
    token_id: str | None = None
    session_id: str | None = None

    @property
    def is_admin(self) -> bool:
        """From inside a session nobody is: rights only shrink."""
        return self.user.role is Role.ADMIN and self.scope == "full"


class Registry:
    def __init__(
        self, people: People, clock: Clock, secret: bytes, live: Callable[[str], Session | None], uids: Uids = NO_UIDS_YET
    ) -> None:
        """`live` finds a live session by its id: a session's pass is good only while that session is."""
        self._people, self._clock, self._secret, self._live, self._uids = people, clock, secret, live, uids
        self.on_change: Callable[[], None] = lambda: None  # somebody is new, or shut out, or a token was revoked
        self._users: dict[str, User] = {}
        self._tokens: dict[str, Token] = {}
        self._one_at_a_time = asyncio.Lock()  # what is checked must still hold when it is written

    async def load(self) -> None:
        self._users = {user.name: user for user in await self._people.users()}
        self._tokens = {token.hash: token for token in await self._people.all_tokens()}
        for user in list(self._users.values()):
            if not user.uid:  # known since before users had uids
                uid = self._uids.next_for(user.name, self._users.values())
                await self._people.give_uid(user.name, uid)
                self._users[user.name] = replace(user, uid=uid)

    def users(self) -> list[User]:
        return sorted(self._users.values(), key=lambda user: user.name)

    def user_shares(self) -> dict[str, float]:
        """Of those whose share is not 1."""
        return {user.name: user.share for user in self._users.values() if user.share != 1.0}

    def user(self, name: str) -> User:
        if name not in self._users:
            raise NoSuchThing(f"no user {shown(name)}{nearest(name, self._users)}", "See `fairy user list`.")
        return self._users[name]

    def caller(self, token: str) -> Caller:
        """Raises NotSignedIn, in the same words whatever is wrong with the token."""
        if is_gateway_pass(self._secret, token[:LONGEST_TOKEN]):
            return Caller(GATEWAY, GATEWAY_SCOPE)
        caller = self._by_pass(token) if token.startswith(PASS_PREFIX) else self._by_token(token)
        if caller is None or caller.user.disabled:
            raise NotSignedIn("this token is not known, has expired or was revoked", SIGN_IN_AGAIN)
        return caller

    def _by_pass(self, text: str) -> Caller | None:
        workload = read_pass(self._secret, text[:LONGEST_TOKEN])
        session = self._live(workload.session_id) if workload is not None else None
        if workload is None or session is None or session.attempt != workload.attempt or session.owner not in self._users:
            return None
        return Caller(self._users[session.owner], "session", session_id=session.id)

    def _by_token(self, text: str) -> Caller | None:
        token = self._tokens.get(hashed(text[:LONGEST_TOKEN]))
        if token is None or token.revoked_at is not None or token.user not in self._users:
            return None
        if token.expires_at is not None and token.expires_at <= self._clock():
            return None
        return Caller(self._users[token.user], token.scope, token_id=token.id)

    async def add_user(self, name: str, role: Role, team: str | None) -> User:
        async with self._one_at_a_time:
            return await self._add_user(name, role, team)

    async def _add_user(self, name: str, role: Role, team: str | None) -> User:
        if user_name(name) in self._users:
            raise Conflict(f"there is a user {name!r} already", "Choose another name, or change that one with `fairy user role`.")
        user = User(name, role, self._clock(), team=team, uid=self._uids.next_for(name, self._users.values()))
        await self._people.add_user(user)
        self._users[name] = user
        self.on_change()
        return user

    async def ensure_admin(self, name: str) -> User:
        """Whoever starts the server; one who was there already becomes admin only if nobody else is."""
        if name not in self._users:
            return await self.add_user(name, Role.ADMIN, None)
        if not any(map(is_admin, self._users.values())):
            return await self.change_user(name, role=Role.ADMIN, disabled=False)
        return self._users[name]

    async def ensure_user(self, name: str) -> User:
        async with self._one_at_a_time:
            return self._users.get(name) or await self._add_user(name, Role.USER, None)

    async def change_user(
        self, name: str, *, role: Role | None = None, disabled: bool | None = None, team: str | None = None, share: float | None = None
    ) -> User:
        """None leaves a field as it is; the empty team is no team."""
        async with self._one_at_a_time:
            return await self._change_user(name, role, disabled, team, None if share is None else checked_share(share))

    async def _change_user(self, name: str, role: Role | None, disabled: bool | None, team: str | None, share: float | None) -> User:
        user = self.user(name)
        changed = replace(
            user,
            role=role or user.role,
            disabled=user.disabled if disabled is None else disabled,
            team=user.team if team is None else team or None,
            share=user.share if share is None else share,
        )
        if is_admin(user) and not is_admin(changed) and sum(map(is_admin, self._users.values())) == 1:
            raise Conflict(f"{name} is the only admin", "Make somebody else an admin first.")
        await self._people.change_user(name, role=role, disabled=disabled, team=team, share=share)
        self._users[name] = changed
        self.on_change()
        return changed

    def tokens(self, user: str) -> list[Token]:
        return [token for token in self._tokens.values() if token.user == user and token.revoked_at is None]

    def good_tokens(self) -> set[str]:
        """Their ids."""
        now = self._clock()
        unrevoked = (token for token in self._tokens.values() if token.revoked_at is None)
        return {token.id for token in unrevoked if token.expires_at is None or token.expires_at > now}

    async def create_token(self, user: str, label: str, scope: str, expires: timedelta | None) -> tuple[Token, str]:
        """The token as kept, and its text: shown once, never stored."""
        if scope not in SCOPES:
            raise BadInput(f"scope: found {scope!r}", f"Write one of {', '.join(SCOPES)}.")
        text, now = TOKEN_PREFIX + secrets.token_urlsafe(32), self._clock()
        ends = None if expires is None else now + expires
        token = Token(secrets.token_hex(6), self.user(user).name, label, hashed(text), scope, now, ends)
        await self._people.add_token(token)
        self._tokens[token.hash] = token
        return token, text

    def token(self, token_id: str) -> Token:
        found = next((token for token in self._tokens.values() if token.id == token_id and token.revoked_at is None), None)
        if found is None:
            raise NoSuchThing(f"no token {shown(token_id)}", "See `fairy token list`.")
        return found

    async def revoke_token(self, token_id: str) -> None:
        token = self.token(token_id)
        await self._people.revoke_token(token.id, self._clock())
        self._tokens.pop(token.hash, None)
        self.on_change()

    def forget_expired(self) -> None:
        """They stay in the store, as history; nobody can come with them again."""
        now = self._clock()
        self._tokens = {key: token for key, token in self._tokens.items() if token.expires_at is None or token.expires_at > now}


def is_admin(user: User) -> bool:
    return user.role is Role.ADMIN and not user.disabled


def hashed(text: str) -> str:
    """Tokens are long and random, so a plain hash is enough: there is nothing to guess."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


