"""What is left of a session that is over: itself, what befell it, and what it held. As one value, so that it moves as one."""
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.ledger import Hold
from gpufairy.core.lifecycle import Phase
from gpufairy.core.names import session_name, user_name
from gpufairy.core.plain import seat_from_plain, seat_to_plain, session_from_plain, session_to_plain
from gpufairy.core.session import Session
from gpufairy.core.steps import Event


@dataclass(frozen=True, slots=True)
class Past:
    session: Session
    events: tuple[Event, ...] = ()
    holds: tuple[Hold, ...] = ()


def past_to_plain(past: Past) -> dict[str, Any]:
    events = [
        {
            "at": event.at.isoformat(), "what": str(event.what), "phase": event.phase.value, "why": event.why,
            "attempt": event.attempt, "actor": event.actor,
        }
        for event in past.events
    ]  # fmt: skip
    holds = [
        {
            "attempt": hold.session.attempt, "seat": seat_to_plain(hold.seat),
            "since": hold.since.isoformat(), "until": hold.until.isoformat(),
        }
        for hold in past.holds
    ]  # fmt: skip
    return {"session": session_to_plain(past.session), "events": events, "holds": holds}


def past_from_plain(plain: dict[str, Any]) -> Past:
    """Raises BadInput."""
    try:
        session = session_from_plain(plain["session"])
        if session.phase is not Phase.ENDED:
            raise BadInput(f"session {session.name} is not over, but {session.phase}", "Only what is over can be moved.")
        user_name(session.owner)
        session_name(session.name)
        events = tuple(event_of(session, one) for one in plain["events"])
        holds = tuple(hold_of(session, one) for one in plain["holds"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"this is no session's past: {type(error).__name__} {str(error)[:100]}"
        raise BadInput(found, "Send what the other server gave.") from None
    return Past(session, events, holds)


def event_of(session: Session, plain: dict[str, Any]) -> Event:
    at, phase = datetime.fromisoformat(plain["at"]), Phase(plain["phase"])
    return Event(
        session.id, session.owner, session.name, at, str(plain["what"]), phase, str(plain["why"]), int(plain["attempt"]),
        actor=str(plain.get("actor", "")),
    )  # fmt: skip


def hold_of(session: Session, plain: dict[str, Any]) -> Hold:
    since, until = (datetime.fromisoformat(plain[name]) for name in ("since", "until"))
    return Hold(replace(session, attempt=int(plain["attempt"])), seat_from_plain(plain["seat"]), since, until)
