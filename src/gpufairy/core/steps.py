"""What happens to a session: `step` is the only way its phase changes, `Change` is what the store writes of it."""
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpufairy.core.lifecycle import Happening, Phase, phase_after
from gpufairy.core.session import IdleStep, Outcome, Seat, Session, Wanted


@dataclass(frozen=True, slots=True)
class Event:
    """One row of a session's history; or, without an owner, of a GPU's, or of what people changed (`deed_event`)."""

    session_id: str
    owner: str
    name: str
    at: datetime
    what: str  # a Happening, or "submitted", "stop_wanted", "adopted"
    phase: Phase  # afterwards
    why: str
    attempt: int
    number: int = 0  # given by the store: order of events
    actor: str = ""  # who asked, where a person did


@dataclass(frozen=True, slots=True)
class Change:
    """A session before and after, and the events that led there; written whole or not at all, if `before` still stands."""

    before: Session
    after: Session
    events: tuple[Event, ...]


def step(session: Session, what: Happening, now: datetime, why: str = "") -> Session:
    """The session after one happening. Clears what the new phase no longer has."""
    after = phase_after(session.phase, what, session.id)
    changed = replace(session, phase=after, since=now, why=why)
    if after is Phase.QUEUED:
        return replace(changed, seat=None, placed_at=None, started_at=None, idle_step=IdleStep.NONE, idle_since=None)
    if after is Phase.RUNNING and session.started_at is None:
        return replace(changed, started_at=now, refusals=0)
    if after is Phase.ENDED:
        return replace(changed, ended_at=now)
    return changed


def change(before: Session, *happenings: tuple[Happening, str], now: datetime) -> Change:
    """The steps one after the other as a single write, with an event for each."""
    session, events = before, []
    for what, why in happenings:
        session = step(session, what, now, why)
        events.append(event(session, what, now, why))
    return Change(before, replace(session, revision=before.revision + 1), tuple(events))


def place(session: Session, seat: Seat, now: datetime, why: str) -> Change:
    return amend(change(session, (Happening.PLACED, why), now=now), seat=seat, placed_at=now)


def end(session: Session, what: Happening, now: datetime, *, outcome: Outcome, why: str, exit_code: int | None = None) -> Change:
    return amend(change(session, (what, why), now=now), outcome=outcome, exit_code=exit_code)


def requeue(session: Session, now: datetime, why: str) -> Change:
    """Back into the queue as a new attempt, when the old one is no more. The table lets only STOPPING and LOST do that."""
    happenings = [(Happening.REQUEUED, why)]
    if session.phase in (Phase.STARTING, Phase.RUNNING):
        happenings.insert(0, (Happening.TOLD_TO_STOP, why))
    return amend(change(session, *happenings, now=now), attempt=session.attempt + 1, swapped_from=None)


def swap(session: Session, image: str, kept_as: str, now: datetime, actor: str, *, lost: str = "") -> Change:
    """Ask it to leave for another image. Its seat stays held; `kept_as` is the image to go back to if the new one does not start."""
    why = f"swapped to {image} by {actor}" + (f"; {lost}" if lost else "")
    made = change(session, (Happening.TOLD_TO_STOP, why), now=now)
    told = replace(made, events=tuple(replace(one, actor=actor) for one in made.events))
    return amend(told, request=replace(session.request, image=image), swapped_from=kept_as)


def swapped(session: Session, now: datetime) -> Change:
    """The old attempt is gone: the next one starts in its seat."""
    why = f"starting with {session.request.image}"
    return amend(change(session, (Happening.SWAPPED, why), now=now), attempt=session.attempt + 1, started_at=None, refusals=0)


def swap_undone(session: Session, now: datetime, why: str) -> Change:
    """The new image did not start: another attempt with what was kept of the old one."""
    words = f"{session.request.image} did not start ({why}), so it goes back to what it was"
    made = change(session, (Happening.SWAPPED, words), now=now)
    request = replace(session.request, image=session.swapped_from)
    return amend(made, request=request, attempt=session.attempt + 1, swapped_from=None, started_at=None, refusals=0)


def settled(session: Session) -> Change:
    """The image it was swapped for works: nobody need go back."""
    return Change(session, replace(session, swapped_from=None, revision=session.revision + 1), ())


def keep(session: Session, until: datetime, time_limit: timedelta | None, now: datetime, actor: str) -> Change:
    """Until then it is asked for nothing, used or not; with a limit, it may run so long at least."""
    until = max(until, session.kept_until or until)
    after = replace(
        session, request=replace(session.request, time_limit=time_limit), why=f"kept until {until:%d %b %H:%M} UTC by {actor}",
        kept_until=until, idle_step=IdleStep.NONE, idle_since=None, revision=session.revision + 1,
    )  # fmt: skip
    told = f"may run until {after.expected_end:%d %b %H:%M} UTC" if after.expected_end is not None else after.why
    if session.is_lent:
        told += "; what it lent is its own again"
    return Change(session, after, (event(session, "kept", now, told, actor),))


def idle_step(session: Session, to: IdleStep, now: datetime, what: str, why: str) -> Change:
    """Down the reclaim ladder, or back to its top."""
    since = None if to is IdleStep.NONE else now
    after = replace(session, idle_step=to, idle_since=since, why=why, revision=session.revision + 1)
    return Change(session, after, (event(session, what, now, why),))


def reseat(made: Change, seat: Seat, now: datetime) -> Change:
    """Other GPUs, or another part of them, from now on: what it had until now is closed in the ledger."""
    return amend(made, seat=seat, placed_at=now)


def reclaim(session: Session, now: datetime, why: str) -> Change:
    """The last rung: it holds GPUs that it does not use, and is told to stop."""
    made = want_stopped(session, now, outcome=Outcome.EVICTED, why=why)
    told = event(session, "reclaimed", now, why)
    return replace(amend(made, idle_step=IdleStep.STOPPED, idle_since=now), events=(told, *made.events))


def can_be_sent(session: Session) -> bool:
    """Back into the queue. One that is only placed starts in a moment, and can then."""
    return session.phase in (Phase.STARTING, Phase.RUNNING) and session.wanted is Wanted.RUN


def send_back(session: Session, now: datetime, why: str) -> Change:
    """Ask it to leave, for others; it goes back into the queue when it has left, and that counts as no failure."""
    made = change(session, (Happening.TOLD_TO_STOP, why), now=now)
    told = event(session, "preempted", now, why)
    # It goes to no other image first: what it was to be swapped for is what it starts with next time.
    return replace(amend(made, preempted=session.preempted + 1, swapped_from=None), events=(told, *made.events))


def noted(session: Session, what: str, now: datetime, why: str) -> Change:
    """Something its owner should know, that changes nothing of it."""
    return Change(session, replace(session, revision=session.revision + 1), (event(session, what, now, why),))


def want_stopped(session: Session, now: datetime, *, outcome: Outcome, why: str, actor: str = "") -> Change:
    after = replace(session, wanted=Wanted.STOP, stop_outcome=outcome, stop_why=why, revision=session.revision + 1)
    return Change(session, after, (event(session, "stop_wanted", now, why, actor),))


def gang_step(made: Change) -> str | None:
    """The gang that comes or goes with this, of which all do or none; None: it concerns nobody else."""
    comes = made.before.phase is Phase.QUEUED and made.after.phase is Phase.PLACED
    return made.before.request.gang if comes or made.after.preempted > made.before.preempted else None


def amend(made: Change, **fields: object) -> Change:
    return replace(made, after=replace(made.after, **fields))  # type: ignore[arg-type]


def gpu_event(gpu: str, name: str, what: str, now: datetime, why: str, *, actor: str = "") -> Event:
    """Of a GPU, by its UUID: it has no owner, so admins alone are shown it among the others. Its phase means nothing."""
    return Event(gpu, "", name, now, what, Phase.ENDED, why, 0, actor=actor)


def deed_event(about: str, what: str, now: datetime, why: str, *, actor: str) -> Event:
    """What somebody changed that is no session's: `about` is its sort and name, as `user:kim`. Without an owner, so for admins alone."""
    return Event(about, "", about.replace(":", " ", 1), now, what, Phase.ENDED, why, 0, actor=actor)


def is_deed(event: Event) -> bool:
    """No UUID of a GPU has a colon in it."""
    return not event.owner and ":" in event.session_id


def event(session: Session, what: str, now: datetime, why: str, actor: str = "") -> Event:
    return Event(session.id, session.owner, session.name, now, what, session.phase, why, session.attempt, actor=actor)
