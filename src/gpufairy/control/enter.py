"""How somebody comes into a session: which one is meant, started if there is none, waited for, and its door."""
import asyncio
from dataclasses import dataclass

from gpufairy.control.advise import greeting_advice
from gpufairy.control.bell import rung
from gpufairy.control.door import submit
from gpufairy.control.find import wait_of
from gpufairy.control.house import House
from gpufairy.control.registry import Caller
from gpufairy.core.amounts import show_cpus, show_duration, show_size
from gpufairy.core.errors import Conflict, EngineRefused, NoSuchThing
from gpufairy.core.explain import why_now
from gpufairy.core.lifecycle import Phase
from gpufairy.core.names import nearest
from gpufairy.core.people import User
from gpufairy.core.purpose import Purpose
from gpufairy.core.session import GpuSeat, IdleStep, Session, SessionKind, Wanted
from gpufairy.core.share import show_parts
from gpufairy.core.workload import workload_id
from gpufairy.engines.contract import Door
from gpufairy.wire.submit import SubmitBody

LEAVING_S = 12.0  # a session that is asked to leave has ten seconds for it
DEFAULT_NAME = "main"  # of the session that is started for whoever comes without having one


@dataclass(frozen=True, slots=True)
class Knock:
    """Somebody at the door, and what for."""

    user: User
    session: str | None  # its name; None: whichever is theirs
    purpose: Purpose = Purpose.SHELL


@dataclass(frozen=True, slots=True)
class Entry:
    """Into a session, or told why not yet."""

    session: Session | None  # None: into the user's folders, with no session
    door: Door | None  # None: it does not run yet
    words: str = ""
    greeting: str = ""


async def enter(house: House, knock: Knock, default: SubmitBody, wait_s: float) -> Entry:
    """`default`: what is started for somebody who has no session."""
    user = knock.user
    session = named(house, user, knock.session) if knock.session is not None else the_one(house, user)
    if knock.purpose is Purpose.FILES and (session is None or session.phase is not Phase.RUNNING):
        return Entry(None, await house.engine.files_door(user.name))
    if session is None:
        await until_left(house, user, wait_s)
        session = await started_for(house, user, default)
    return await entry(house, await waited_for(house, session, wait_s))


def named(house: House, user: User, name: str) -> Session:
    session = house.book.named(user.name, name)
    if session is None:
        mine = sorted(other.name for other in house.book.interactive_of(user.name))
        near = nearest(name, mine)
        raise NoSuchThing(f"{user.name} has no session {name!r} that runs or waits{near}", f"Yours: {', '.join(mine[:20]) or 'none'}.")
    return session


def the_one(house: House, user: User) -> Session | None:
    """The only one there is; of several, the default one."""
    mine = [session for session in house.book.interactive_of(user.name) if session.wanted is Wanted.RUN]
    if len(mine) == 1:
        return mine[0]
    return next((session for session in mine if session.name == DEFAULT_NAME), None)


async def until_left(house: House, user: User, wait_s: float) -> None:
    """One that was told to stop still has the name: the next is started when it has gone."""
    leaving = house.book.named(user.name, DEFAULT_NAME)
    if leaving is not None and leaving.wanted is Wanted.STOP:
        await waited_for(house, leaving, max(wait_s, LEAVING_S), (Phase.ENDED,))


async def started_for(house: House, user: User, default: SubmitBody) -> Session:
    default = house.classes.default_for(user) or default
    body = default.model_copy(update={"name": DEFAULT_NAME, "kind": SessionKind.INTERACTIVE.value, "count": None})
    try:
        return (await submit(house, Caller(user, "full"), body, {}, None))[0]
    except Conflict:  # two logins at once: the other one is just writing it down
        for _ in range(100):
            if (session := house.book.named(user.name, DEFAULT_NAME)) is not None:
                return session
            await asyncio.sleep(0.01)
        raise


async def waited_for(house: House, session: Session, wait_s: float, phases: tuple[Phase, ...] = (Phase.RUNNING, Phase.ENDED)) -> Session:
    with house.bells.listen(session.id) as bell:
        until = house.clock().timestamp() + wait_s
        while True:
            bell.clear()
            session = house.book.get(session.id) or await house.store.sessions.get(session.id) or session
            left_s = until - house.clock().timestamp()
            if session.phase in phases or left_s <= 0 or house.bells.leaving.is_set():
                return session
            await rung(bell, left_s)


async def entry(house: House, session: Session) -> Entry:
    if session.phase is Phase.ENDED:
        raise Conflict(f"session {session.name} is over: {session.why}", f"Its log: fairy logs {session.name}.")
    if session.phase is not Phase.RUNNING:
        return Entry(session, None, words=words(house, session))
    try:
        door = await house.engine.door(workload_id(session))
        said = greeting(session, house.gallery.root_inside(session)), await greeting_advice(house, session)
        return Entry(session, door, greeting=". ".join(part for part in said if part))
    except EngineRefused as error:  # it has just ended, and the loops do not know yet
        return Entry(session, None, words=str(error))


def words(house: House, session: Session) -> str:
    wait = wait_of(house, session) if session.phase is Phase.QUEUED else None
    told = [f"{session.name} is {session.state}", why_now(session, wait)]
    if wait is not None and wait.place is not None:
        told.insert(1, f"place {wait.place} of {house.book.waiting()}")
    if wait is not None and wait.forecast_start is not None:
        told.append(f"starts in about {show_duration(wait.forecast_start - house.clock())}")
    return "; ".join(told)


def greeting(session: Session, root: bool = False) -> str:
    seat = session.seat
    if seat is None:
        return f"{session.name}"
    gpus = ", ".join(map(gpu_words, seat.gpus)) or "no GPU"
    ends = f"ends {session.expected_end:%d %b %H:%M} UTC (fairy keep {session.name} 2h)" if session.expected_end else ""
    told = [gpus, f"{show_cpus(seat.cpus_milli)} CPUs", show_size(seat.memory_bytes), "you are root inside" if root else ""]
    told.append(ends or f"held until you stop it (fairy stop {session.name})")
    idle = f". {session.why}" if session.idle_step is not IdleStep.NONE else ""
    return f"{session.name} on {seat.node}: " + "; ".join(part for part in told if part) + idle


def gpu_words(gpu: GpuSeat) -> str:
    simulated = " (simulated)" if gpu.simulated else ""
    return f"{gpu.profile or show_parts(gpu.parts)} of {gpu.kind or 'GPU'} {gpu.index}{simulated}"
