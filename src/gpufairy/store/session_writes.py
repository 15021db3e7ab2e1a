"""What adding and changing sessions writes, statement by statement, inside the writer's transaction. Called by sessions.py alone."""
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Update, and_, bindparam, delete, insert, select, update

from gpufairy.core.errors import Conflict
from gpufairy.core.ledger import Fading, Hold, Usage, added, charged_to
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.steps import Change, Event, gang_step
from gpufairy.store import tables
from gpufairy.store.rows import chunks, event_to_row, from_micros, session_from_row, session_to_row, to_micros
from gpufairy.store.tables import LIVE, idempotency_keys

table = tables.sessions
FIXED = ("id", "number", "owner", "kind", "submitted_at")  # what a session is born with


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a client sends to be able to ask twice for the same thing."""

    owner: str
    key: str
    body_hash: str


def made_before(connection: Connection, key: IdempotencyKey) -> list[Session] | None:
    row = connection.execute(KEY, {"wanted_owner": key.owner, "wanted_key": key.key}).first()
    if row is None:
        return None
    if row.body_hash != key.body_hash:
        raise Conflict(f"Idempotency-Key {key.key!r} came before with another request", "Use a new key for a new request.")
    found = connection.execute(BY_IDS, {"wanted_ids": json.loads(row.session_ids)})
    return sorted((session_from_row(row) for row in found), key=lambda session: session.number)


def remember_key(connection: Connection, key: IdempotencyKey, sessions: Sequence[Session]) -> None:
    at = max((to_micros(session.submitted_at) for session in sessions), default=0)
    ids = json.dumps([session.id for session in sessions])
    row = {"owner": key.owner, "key": key.key, "body_hash": key.body_hash, "session_ids": ids, "at": at}
    connection.execute(ADD_KEY, [row])


def forget_keys(connection: Connection, before: datetime) -> None:
    connection.execute(delete(idempotency_keys).where(idempotency_keys.c.at < to_micros(before)))


def refuse_taken_names(connection: Connection, sessions: Sequence[Session]) -> None:
    names: dict[str, set[str]] = {}
    for session in sessions:
        if session.name in names.setdefault(session.owner, set()):
            raise Conflict(f"{session.owner} asks for two sessions named {session.name} at once", "Give each its own name.")
        names[session.owner].add(session.name)
    for owner, asked in names.items():
        # One name is the rule, and a plain comparison is prepared once; a list is expanded anew each time.
        one = len(asked) == 1
        values = {"wanted_owner": owner, **({"wanted_name": next(iter(asked))} if one else {"wanted_names": list(asked)})}
        taken = connection.execute(TAKEN if one else ONE_TAKEN_OF, values).first()
        if taken is not None:
            raise Conflict(
                f"{owner} has a session named {taken.name} already ({taken.phase})", f"Choose another name, or `fairy stop {taken.name}`."
            )


def those_that_stand(connection: Connection, changes: Sequence[Change]) -> list[Change]:
    """Asked before, not counted after: drivers do not say which rows of many an update met."""
    revisions: dict[str, int | None] = {}
    for ids in chunks([change.before.id for change in changes]):
        revisions.update((row.id, row.revision) for row in connection.execute(REVISIONS, {"wanted_ids": ids}))
    took = []
    for change in changes:
        if revisions.get(change.before.id) != change.before.revision:
            continue
        took.append(change)
        # A second change of one session in the same save stands on the first; one that ended stands for ever.
        revisions[change.before.id] = None if change.after.phase is Phase.ENDED else change.after.revision
    written = {id(change) for change in took}
    torn = {gang for change in changes if id(change) not in written and (gang := gang_step(change)) is not None}
    return [change for change in took if gang_step(change) not in torn] if torn else took


def change_to_row(change: Change) -> dict[str, Any]:
    row = session_to_row(change.after)
    for column in FIXED:
        del row[column]
    return {**row, "guarded_id": change.before.id, "guarded_revision": change.before.revision}


def write_events(connection: Connection, events: Sequence[Event]) -> None:
    if events:
        connection.execute(ADD_EVENTS, [event_to_row(event) for event in events])


def write_usage(connection: Connection, holds: Sequence[Hold], fading: Fading) -> None:
    """Of owners, and of teams in the same column: see charged_to."""
    names = {name for hold in holds for name in charged_to(hold.session)}
    rows = connection.execute(USAGE, {"wanted_owners": list(names)})
    used: dict[str, Usage] = {row.owner: Usage(row.gpu_seconds, from_micros(row.as_of)) for row in rows}
    old = set(used)
    for hold in holds:
        for name in charged_to(hold.session):
            used[name] = added(used.get(name), hold, fading.half_life, fading.entry_penalty)
    if old:
        connection.execute(NEW_USAGE, [usage_to_row(name, used[name], "guarded_owner") for name in sorted(old)])
    if names - old:
        connection.execute(ADD_USAGE, [usage_to_row(name, used[name], "owner") for name in sorted(names - old)])


def usage_to_row(owner: str, usage: Usage, owner_column: str) -> dict[str, Any]:
    return {owner_column: owner, "gpu_seconds": usage.gpu_seconds, "as_of": to_micros(usage.as_of)}


def _guarded() -> Update:
    stands = and_(table.c.id == bindparam("guarded_id"), table.c.revision == bindparam("guarded_revision"), LIVE)
    return update(table).where(stands).values({column.name: bindparam(column.name) for column in table.c if column.name not in FIXED})


AMONG = table.c.id.in_(bindparam("wanted_ids", expanding=True))
GUARDED = _guarded()
ADD_SESSIONS, ADD_EVENTS, ADD_HOLDS = insert(table), insert(tables.events), insert(tables.holds)
ADD_KEY, ADD_USAGE = insert(idempotency_keys), insert(tables.usage)
REVISIONS = select(table.c.id, table.c.revision).where(AMONG, LIVE)
BY_IDS = select(table).where(AMONG)
OWNED = select(table.c.name, table.c.phase).where(table.c.owner == bindparam("wanted_owner"), LIVE)
TAKEN = OWNED.where(table.c.name == bindparam("wanted_name"))
ONE_TAKEN_OF = OWNED.where(table.c.name.in_(bindparam("wanted_names", expanding=True)))
KEY = select(idempotency_keys).where(
    idempotency_keys.c.owner == bindparam("wanted_owner"), idempotency_keys.c.key == bindparam("wanted_key")
)
USAGE = select(tables.usage).where(tables.usage.c.owner.in_(bindparam("wanted_owners", expanding=True)))
NEW_USAGE = (
    update(tables.usage)
    .where(tables.usage.c.owner == bindparam("guarded_owner"))
    .values(gpu_seconds=bindparam("gpu_seconds"), as_of=bindparam("as_of"))
)
