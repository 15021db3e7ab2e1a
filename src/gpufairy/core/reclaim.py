"""Reclaim: the ladder for sessions that hold GPUs and do not use them. Warned, lent out, shrunk, stopped; each rung is policy.

Any use, or `fairy keep`, leads back to the top. What cannot be done to a session is left out, and said.
"""
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.fit import part_of
from gpufairy.core.idle import Watched, idle_since
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import Sharing
from gpufairy.core.room import Room
from gpufairy.core.session import GpuSeat, IdleStep, Seat, Session, Wanted
from gpufairy.core.share import show_parts

# Of its share of the GPU's memory: what a context takes that lies about. With more, a guest would not find the memory it was given.
SMALL_MEMORY = 0.05
ORDER = (IdleStep.WARNED, IdleStep.LENT, IdleStep.SHRUNK, IdleStep.STOPPED)
WHAT = {IdleStep.WARNED: "idle_warned", IdleStep.LENT: "lent", IdleStep.SHRUNK: "shrunk", IdleStep.STOPPED: "reclaimed"}  # events
THEN = {
    IdleStep.LENT: "its GPUs are lent to preemptible sessions, and are its own again as soon as it uses them",
    IdleStep.SHRUNK: "it is shrunk to half of its GPUs",
    IdleStep.STOPPED: "it is stopped",
}


@dataclass(frozen=True, slots=True)
class Ladder:
    """Right for a lab: nobody loses anything by it but what they do not use, and they get that back at once."""

    idle_after: timedelta | None = timedelta(hours=1)  # idle for so long: warned. None: nothing is ever asked back
    grace: timedelta = timedelta(minutes=30)  # between two rungs
    lend: bool = True
    shrink: bool = False
    stop: bool = False

    def below(self, step: IdleStep) -> tuple[IdleStep, ...]:
        """The rungs under this one that are on."""
        on = {IdleStep.WARNED: True, IdleStep.LENT: self.lend, IdleStep.SHRUNK: self.shrink, IdleStep.STOPPED: self.stop}
        rest = ORDER if step is IdleStep.NONE else ORDER[ORDER.index(step) + 1 :]
        return tuple(rung for rung in rest if on[rung])

    def allows(self, step: IdleStep) -> bool:
        """Whether anybody may still be on that rung: a setting may have changed since."""
        return step is IdleStep.NONE or (self.idle_after is not None and (step is not IdleStep.LENT or self.lend))


@dataclass(frozen=True, slots=True)
class Ladders:
    default: Ladder = Ladder()
    teams: Mapping[str, Ladder] = field(default_factory=dict)

    def of(self, session: Session) -> Ladder:
        return self.default if session.team is None else self.teams.get(session.team, self.default)


@dataclass(frozen=True, slots=True)
class Rung:
    """What is to be done about an idle session now."""

    to: IdleStep  # NONE: nothing can be done; `why` says what could not. The one it is on: it is told first what comes
    why: str
    seat: Seat | None = None  # of one that is shrunk


Refuses = Callable[[IdleStep], str]  # why a rung cannot be taken, in words; empty: it can


def next_rung(session: Session, found: Watched | None, ladder: Ladder, refuses: Refuses, now: datetime) -> Rung | None:
    """None: nothing is due."""
    since = idle_since(found, now)
    if since is None or not is_due(session, since, ladder, now):
        return None
    skipped: list[str] = []
    for rung in ladder.below(session.idle_step):
        if not (words := refuses(rung)):
            if rung is IdleStep.STOPPED and not is_told_of_stop(session):
                return Rung(session.idle_step, "; ".join([warning(session, since, rung, ladder, now), *skipped]))
            then = next((below for below in ladder.below(rung) if not refuses(below)), None)
            why = "; ".join([reason(session, since, rung, ladder, now, then=then), *skipped])
            seat = shrunk(session.seat) if rung is IdleStep.SHRUNK and session.seat is not None else None
            return Rung(rung, why, seat)
        skipped.append(words)
    return Rung(IdleStep.NONE, "; ".join(skipped)) if skipped else None


def is_due(session: Session, since: datetime, ladder: Ladder, now: datetime) -> bool:
    if session.phase is not Phase.RUNNING or session.wanted is not Wanted.RUN or session.seat is None or not session.seat.gpus:
        return False
    if ladder.idle_after is None or (session.kept_until is not None and now < session.kept_until):
        return False
    if session.idle_step is IdleStep.NONE:
        return now - since >= ladder.idle_after
    # A time to come was written before the machine's clock was put back: then what was seen since counts.
    on_rung = session.idle_since if session.idle_since is not None and session.idle_since <= now else since
    return now - max(since, on_rung) >= ladder.grace


def is_back(session: Session, found: Watched | None, ladder: Ladder) -> str:
    """Why it goes back to the top of the ladder, in words; empty: it does not. Where nobody can tell, it stays where it is."""
    if session.idle_step is IdleStep.NONE or session.wanted is not Wanted.RUN:
        return ""
    if not ladder.allows(session.idle_step):
        return "idle sessions are asked for nothing here any more"
    return f"in use again: {found.why}" if found is not None and found.active else ""


def is_told_of_stop(session: Session) -> bool:
    """By the newest words about it: a rung that was named instead may not have been possible when its time came."""
    return THEN[IdleStep.STOPPED] in session.why


def reason(session: Session, since: datetime, rung: IdleStep, ladder: Ladder, now: datetime, *, then: IdleStep | None) -> str:
    """`then`: the next rung that could be taken."""
    said, soon = idle_words(since, now), ""
    if then is IdleStep.STOPPED:
        soon = f". In {show_duration(ladder.grace)} {THEN[then]}"
    if rung is IdleStep.LENT:
        return f"{said}: {THEN[rung]}{soon}. Use it, or: fairy keep {session.name} 2h"
    if rung is IdleStep.SHRUNK and session.seat is not None:
        return f"{said}: it has {gpu_words(shrunk(session.seat))} from now on, and grows back when it is used and there is room{soon}"
    if rung is IdleStep.STOPPED:
        return f"{said}: stopped. Start it again: fairy resume {session.name}"
    return warning(session, since, then, ladder, now)


def warning(session: Session, since: datetime, then: IdleStep | None, ladder: Ladder, now: datetime) -> str:
    asked = f"in {show_duration(ladder.grace)} {THEN[then]}" if then is not None else "others may need its GPUs"
    return f"{idle_words(since, now)}: {asked}. Use it, or: fairy keep {session.name} 2h"


def idle_words(since: datetime, now: datetime) -> str:
    return f"idle for {show_duration(now - since)}, since {since:%H:%M} UTC"


def gpu_words(seat: Seat) -> str:
    return f"{show_parts(seat.gpu_parts)} GPU"


def why_not_lent(session: Session, memory: Mapping[str, int | None] | None) -> str:
    """`memory`: what it holds of each GPU's, by device."""
    for gpu in session.seat.gpus if session.seat is not None else ():
        held = None if memory is None else memory.get(gpu.device)
        if gpu.profile:
            return "not lent: its GPU is cut by MIG"
        if gpu.borrowed:
            return "not lent: it is a guest there itself"
        if held is None:
            return "not lent: what it holds of the GPU's memory is not known"
        if held > gpu.memory_bytes * SMALL_MEMORY:
            return f"not lent: it holds {show_size(held)} of the GPU's memory"
    return ""


def why_not_shrunk(session: Session, memory: Mapping[str, int | None] | None, *, is_held: bool, has_guests: bool) -> str:
    """`is_held`: the engine holds sessions to their parts from their start on, and cannot change them while they run."""
    if has_guests:
        return "not shrunk: others use what it lends"
    if session.seat is not None and any(gpu.shrunk_from is not None for gpu in session.seat.gpus):
        return "not shrunk: it was before"
    for gpu in session.seat.gpus if session.seat is not None else ():
        if gpu.profile or gpu.enforced or gpu.borrowed or (is_held and not may_be_halved(gpu)):
            return "not shrunk: what it has is fixed while it runs"
        held = None if memory is None else memory.get(gpu.device)
        if held is None or held > gpu.memory_bytes // 2:
            size = "nobody knows how much" if held is None else show_size(held)
            return f"not shrunk: it holds {size} of the GPU's memory"
    return ""


def may_be_halved(gpu: GpuSeat) -> bool:
    """Of one that sits alone and in turns nothing remembers how much it was given."""
    return gpu.simulated or gpu.sharing is Sharing.TIME


def shrunk(seat: Seat) -> Seat:
    """Half of every GPU; its CPUs and memory stay. What it is charged is for the caller to say."""
    return replace(seat, gpus=tuple(_halved(gpu) for gpu in seat.gpus))


def _halved(gpu: GpuSeat) -> GpuSeat:
    memory_parts = None if gpu.memory_parts is None else gpu.memory_parts // 2
    return replace(gpu, parts=gpu.parts // 2, memory_bytes=gpu.memory_bytes // 2, memory_parts=memory_parts, shrunk_from=gpu.parts)


def grown(session: Session, without: Room) -> Seat | None:
    """The seat it had before it was shrunk, where the rest of its GPUs is free. `without`: the room of its node, less its own seat."""
    if session.seat is None or all(gpu.shrunk_from is None for gpu in session.seat.gpus):
        return None
    gpus = []
    for gpu in session.seat.gpus:
        place = without.place_of(gpu)
        if place is None:
            return None
        now = part_of(without.gpus[place], gpu.shrunk_from or gpu.parts, session.request.gpu_memory_bytes)
        if now.borrowed:  # there is less than that
            return None
        # How it is held apart was settled at its start, whatever its GPU has been set to since.
        gpus.append(replace(gpu, parts=now.parts, memory_bytes=now.memory_bytes, memory_parts=now.memory_parts, shrunk_from=None))
    return replace(session.seat, gpus=tuple(gpus))
