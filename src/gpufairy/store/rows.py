"""Values as rows and back. Lean, because a start reads a hundred thousand of them."""
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from gpufairy.core.ledger import Hold
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plain import request_from_plain, request_to_plain, seat_from_plain, seat_to_plain
from gpufairy.core.session import IdleStep, Outcome, Request, Seat, Session, SessionKind, Wanted
from gpufairy.core.steps import Event

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MOST_PARAMETERS = 10_000
REQUESTS_KEPT = 4096  # a user's thousand jobs often differ in nothing but their name

E = TypeVar("E", bound=StrEnum)


def members(kind: type[E]) -> dict[str, E]:
    return {member.value: member for member in kind}  # a dict answers several times faster than the enum's own call


KINDS, PHASES, WANTED, OUTCOMES, STEPS = members(SessionKind), members(Phase), members(Wanted), members(Outcome), members(IdleStep)


def chunks(ids: Sequence[str]) -> Iterator[list[str]]:
    """Each id once, and never more at a time than a statement may have parameters (32,766 in SQLite)."""
    once = list(dict.fromkeys(ids))
    for start in range(0, len(once), MOST_PARAMETERS):
        yield once[start : start + MOST_PARAMETERS]


def to_micros(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(0, 0, micros)


def to_micros_or_none(at: datetime | None) -> int | None:
    return None if at is None else (at - EPOCH) // MICROSECOND


def from_micros_or_none(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(0, 0, micros)


@lru_cache(REQUESTS_KEPT)
def request_to_text(request: Request) -> str:
    return json.dumps(request_to_plain(request), separators=(",", ":"))


@lru_cache(REQUESTS_KEPT)
def request_from_text(text: str) -> Request:
    return request_from_plain(json.loads(text))


def seat_to_text(seat: Seat) -> str:
    return json.dumps(seat_to_plain(seat), separators=(",", ":"))


def seat_from_text(text: str) -> Seat:
    return seat_from_plain(json.loads(text))


def session_to_row(session: Session) -> dict[str, Any]:
    return {
        "id": session.id,
        "name": session.name,
        "owner": session.owner,
        "kind": session.kind.value,
        "request": request_to_text(session.request),
        "submitted_at": to_micros(session.submitted_at),
        "since": to_micros(session.since),
        "number": session.number,
        "team": session.team,
        "priority": session.priority,
        "wanted": session.wanted.value,
        "stop_outcome": session.stop_outcome.value,
        "stop_why": session.stop_why,
        "phase": session.phase.value,
        "why": session.why,
        "outcome": None if session.outcome is None else session.outcome.value,
        "exit_code": session.exit_code,
        "seat": None if session.seat is None else seat_to_text(session.seat),
        "attempt": session.attempt,
        "refusals": session.refusals,
        "revision": session.revision,
        "placed_at": to_micros_or_none(session.placed_at),
        "started_at": to_micros_or_none(session.started_at),
        "ended_at": to_micros_or_none(session.ended_at),
        "swapped_from": session.swapped_from,
        "idle_step": session.idle_step.value,
        "idle_since": to_micros_or_none(session.idle_since),
        "kept_until": to_micros_or_none(session.kept_until),
        "preempted": session.preempted,
    }


def session_from_row(row: Any) -> Session:
    """The columns in the order of tables.sessions, which is that of Session's fields."""
    (id_, name, owner, kind, request, submitted_at, since, number, team, priority, wanted, stop_outcome, stop_why,
     phase, why, outcome, exit_code, seat, attempt, refusals, revision, placed_at, started_at, ended_at,
     swapped_from, idle_step, idle_since, kept_until, preempted) = row  # fmt: skip
    return Session(
        id_, name, owner, KINDS[kind], request_from_text(request), from_micros(submitted_at), from_micros(since), number, team,
        priority, WANTED[wanted], OUTCOMES[stop_outcome], stop_why, PHASES[phase], why,
        None if outcome is None else OUTCOMES[outcome], exit_code, None if seat is None else seat_from_text(seat), attempt,
        refusals, revision, from_micros_or_none(placed_at), from_micros_or_none(started_at), from_micros_or_none(ended_at),
        swapped_from, STEPS[idle_step], from_micros_or_none(idle_since), from_micros_or_none(kept_until), preempted,
    )  # fmt: skip


def event_to_row(event: Event) -> dict[str, Any]:
    return {
        "session_id": event.session_id,
        "owner": event.owner,
        "name": event.name,
        "at": to_micros(event.at),
        "what": str(event.what),
        "phase": event.phase.value,
        "why": event.why,
        "attempt": event.attempt,
        "actor": event.actor,
    }


def event_from_row(row: Mapping[str, Any]) -> Event:
    return Event(**{**row, "at": from_micros(row["at"]), "phase": PHASES[row["phase"]]})


def hold_to_row(hold: Hold) -> dict[str, Any]:
    return {
        "session_id": hold.session.id,
        "attempt": hold.session.attempt,
        "owner": hold.session.owner,
        "team": hold.session.team,
        "seat": seat_to_text(hold.seat),
        "gpu_parts": hold.seat.gpu_parts,
        "charge_parts": hold.seat.charge_parts,
        "since": to_micros(hold.since),
        "until": to_micros(hold.until),
    }
