"""What users are told of their own sessions, from what happened to them. Which of it somebody wants to hear is theirs to say."""
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpufairy.core.alert_tell import stamp
from gpufairy.core.amounts import show_duration
from gpufairy.core.letter import Item
from gpufairy.core.lifecycle import Happening, Phase
from gpufairy.core.session import Outcome, Session
from gpufairy.core.steps import Event
from gpufairy.core.user_channel import Tells

WAITED = timedelta(minutes=1)  # who waited for less was watching
ENDS_SOON = timedelta(minutes=15)
SHORT_LIFE = timedelta(seconds=30)
IDLE = ("idle_warned", "lent", "shrunk", "reclaimed")
QUOTA = "quota"  # the word in every refusal by one


@dataclass(frozen=True, slots=True)
class UserMessage:
    """The same key is told once."""

    owner: str
    about: Tells
    key: str
    item: Item


def message_of(event: Event, session: Session) -> UserMessage | None:
    """`session`: as it is now. None: nothing that its owner need be told of."""
    name = f"session {session.name}"
    if event.what == Happening.READY and event.phase is Phase.RUNNING:
        return _started(event, session)
    if event.phase is Phase.ENDED and event.what not in IDLE and session.outcome is not None:
        if session.outcome in (Outcome.FAILED, Outcome.LOST):
            code = "" if session.exit_code is None else f" with code {session.exit_code}"
            sentence = f"{name} failed{code}: {session.why or 'it is over'}"
            return _message(event, session, Tells.FAILED, sentence, f"See its last lines: fairy logs {session.name}.")
        return _message(event, session, Tells.ENDED, f"{name} is over: {session.why or session.outcome}")
    if event.what in IDLE:
        return _message(event, session, Tells.IDLE, f"{name} is idle: {event.why}", f"To keep it: fairy keep {session.name} 2h.")
    return None


def _started(event: Event, session: Session) -> UserMessage | None:
    waited = event.at - session.submitted_at
    if waited < WAITED:
        return None
    where = "" if session.seat is None else f" on {session.seat.node}"
    return _message(event, session, Tells.STARTED, f"session {session.name} runs{where}, after waiting {show_duration(waited)}")


def ends_soon(session: Session, now: datetime) -> UserMessage | None:
    end = session.expected_end
    if session.phase is not Phase.RUNNING or end is None or session.started_at is None or not now < end <= now + ENDS_SOON:
        return None
    if end - session.started_at <= ENDS_SOON + SHORT_LIFE:  # one that runs no longer than that is not news
        return None
    sentence = f"session {session.name} ends in {show_duration(end - now)}: its time is up then"
    item = Item("session_ending", "told", "warning", sentence, f"For more time: fairy keep {session.name} 2h.", since=stamp(now))
    return UserMessage(session.owner, Tells.ENDING, f"ending:{session.id}:{session.attempt}:{stamp(end)}", item)


def over_quota(session: Session, why: str, now: datetime) -> UserMessage | None:
    """`why`: it was left waiting for that."""
    if session.phase is not Phase.QUEUED or QUOTA not in why or now - session.submitted_at < WAITED:
        return None
    item = Item("over_quota", "told", "note", f"session {session.name} waits: {why}", f"See fairy why {session.name}.", since=stamp(now))
    return UserMessage(session.owner, Tells.QUOTA, f"quota:{session.id}:{session.attempt}", item)


def _message(event: Event, session: Session, about: Tells, sentence: str, todo: str = "") -> UserMessage:
    severity = "warning" if todo else "note"
    item = Item(f"session_{about}", "told", severity, sentence, todo, thing=session.name, since=stamp(event.at))
    return UserMessage(session.owner, about, f"event:{event.number}", item)
