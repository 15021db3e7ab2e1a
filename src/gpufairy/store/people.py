"""Users, their tokens (hashes, never the tokens) and their SSH keys. Who may do what is decided elsewhere."""
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, insert, select, update

from gpufairy.core.errors import Conflict, NoSuchThing
from gpufairy.core.people import Key, Role, Token, User
from gpufairy.store.reader import Reader
from gpufairy.store.rows import from_micros, from_micros_or_none, to_micros, to_micros_or_none
from gpufairy.store.tables import keys, tokens, users
from gpufairy.store.writer import Writer


class People:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def add_user(self, user: User) -> None:
        row = {
            "name": user.name, "role": user.role.value, "disabled": user.disabled, "team": user.team, "uid": user.uid, "share": user.share,
        }  # fmt: skip
        taken = Conflict(f"there is a user named {user.name} already", "Choose another name.")
        await self._add(users, "name", {**row, "created_at": to_micros(user.created_at)}, taken)

    async def users(self) -> list[User]:
        return [user_from_row(row) for row in await self._rows(select(users).order_by(users.c.name))]

    async def change_user(
        self, name: str, *, role: Role | None = None, disabled: bool | None = None, team: str | None = None, share: float | None = None
    ) -> User:
        """None leaves a field as it is; the empty team is no team."""
        changed = {"role": None if role is None else role.value, "disabled": disabled, "team": team, "share": share}
        values: dict[str, Any] = {column: value for column, value in changed.items() if value is not None}
        if team == "":
            values["team"] = None
        return await self._writer.write(lambda connection: change_user(connection, name, values))

    async def give_uid(self, name: str, uid: int) -> None:
        """To one that has none yet; a uid once given stays."""
        nobodys = (users.c.name == name) & (users.c.uid == 0)
        await self._writer.write(lambda connection: connection.execute(update(users).where(nobodys).values(uid=uid)) and None)

    async def add_token(self, token: Token) -> None:
        row = {"id": token.id, "user": token.user, "label": token.label, "hash": token.hash, "scope": token.scope}
        times = {"created_at": to_micros(token.created_at), "expires_at": to_micros_or_none(token.expires_at)}
        taken = Conflict(f"there is a token {token.id} already", "Make another.")
        await self._add(tokens, "id", {**row, **times, "revoked_at": to_micros_or_none(token.revoked_at)}, taken)

    async def all_tokens(self) -> list[Token]:
        return [token_from_row(row) for row in await self._rows(select(tokens).order_by(tokens.c.created_at, tokens.c.id))]

    async def revoke_token(self, token_id: str, at: datetime) -> None:
        """Once revoked it stays so, with the time of the first."""
        await self._writer.write(lambda connection: revoke_token(connection, token_id, at))

    async def add_key(self, key: Key) -> None:
        row = {"fingerprint": key.fingerprint, "user": key.user, "text": key.text, "comment": key.comment}
        taken = Conflict(f"SSH key {key.fingerprint} is registered already", "A key names one user: use another key.")
        await self._add(keys, "fingerprint", {**row, "added_at": to_micros(key.added_at)}, taken)

    async def all_keys(self) -> list[Key]:
        rows = await self._rows(select(keys).order_by(keys.c.user, keys.c.added_at, keys.c.fingerprint))
        return [Key(**{**row, "added_at": from_micros(row["added_at"])}) for row in rows]

    async def remove_key(self, user: str, fingerprint: str) -> None:
        await self._writer.write(lambda connection: remove_key(connection, user, fingerprint))

    async def _add(self, table: Table, id_column: str, row: dict[str, Any], taken: Conflict) -> None:
        await self._writer.write(lambda connection: add_row(connection, table, id_column, row, taken))

    async def _rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        return await self._reader.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])


def add_row(connection: Connection, table: Table, id_column: str, row: dict[str, Any], taken: Conflict) -> None:
    if connection.execute(select(table.c[id_column]).where(table.c[id_column] == row[id_column])).first() is not None:
        raise taken
    if "user" in row and connection.execute(select(users.c.name).where(users.c.name == row["user"])).first() is None:
        raise no_user(row["user"])
    connection.execute(insert(table), [row])


def change_user(connection: Connection, name: str, values: dict[str, Any]) -> User:
    if values:
        connection.execute(update(users).where(users.c.name == name).values(values))
    row = connection.execute(select(users).where(users.c.name == name)).mappings().first()
    if row is None:
        raise no_user(name)
    return user_from_row(dict(row))


def revoke_token(connection: Connection, token_id: str, at: datetime) -> None:
    found = connection.execute(select(tokens.c.revoked_at).where(tokens.c.id == token_id)).first()
    if found is None:
        raise NoSuchThing(f"there is no token {token_id}", "See `fairy token list`.")
    if found.revoked_at is None:
        connection.execute(update(tokens).where(tokens.c.id == token_id).values(revoked_at=to_micros(at)))


def remove_key(connection: Connection, user: str, fingerprint: str) -> None:
    gone = connection.execute(delete(keys).where(keys.c.user == user, keys.c.fingerprint == fingerprint))
    if gone.rowcount == 0:
        raise NoSuchThing(f"{user} has no SSH key {fingerprint}", "See `fairy key list`.")


def no_user(name: str) -> NoSuchThing:
    return NoSuchThing(f"there is no user named {name}", "See `fairy user list`.")


def user_from_row(row: Mapping[str, Any]) -> User:
    return User(row["name"], Role(row["role"]), from_micros(row["created_at"]), row["disabled"], row["team"], row["uid"], row["share"])


def token_from_row(row: Mapping[str, Any]) -> Token:
    times = {name: from_micros_or_none(row[name]) for name in ("expires_at", "revoked_at")}
    return Token(**{**row, **times, "created_at": from_micros(row["created_at"])})
