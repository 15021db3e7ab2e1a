"""What I should know of my sessions before it is too late: idle ones, those that end soon, those that must make room."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.house import House
from gpufairy.control.roster import ENDS_SOON
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import IdleStep, Session, Wanted
from gpufairy.web.speech import _
from gpufairy.web.times import clock, length


@dataclass(frozen=True, slots=True)
class Warning:
    session: str
    href: str
    title: str
    detail: str  # a sentence of core, or empty
    keep: str  # how long the button keeps it; empty: keeping would not help


def warnings_of(house: House, session: Session, now: datetime) -> list[Warning]:
    """Of one that runs."""
    if session.phase is not Phase.RUNNING or session.wanted is not Wanted.RUN:
        return []
    found = []
    if session.idle_step is not IdleStep.NONE:
        title = _("{session} does not use its GPUs. Do you still need it?").format(session=session.name)
        found.append(warning(session, title, session.why, "2h"))
    elif told := house.notices.of(session.id):
        found.append(warning(session, _("Something is asked of {session}.").format(session=session.name), "; ".join(told), ""))
    end = session.expected_end
    if end is not None and now < end < now + ENDS_SOON:
        title = _("{session} ends at {clock}, in {time}.").format(session=session.name, clock=clock(end, now), time=length(end - now))
        found.append(warning(session, title, "", "2h"))
    return found


def warning(session: Session, title: str, detail: str, keep: str) -> Warning:
    return Warning(session.name, f"/sessions/{session.name}", title, detail, keep)
