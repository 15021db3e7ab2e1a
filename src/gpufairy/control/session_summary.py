"""The summary of a session that is over, from the ledger and the history."""
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from gpufairy.control.history import FINE_USAGE, Chronicle
from gpufairy.control.house import House
from gpufairy.core.series import Kind, Series, Total, floor_to
from gpufairy.core.session import Seat, Session
from gpufairy.core.session_summary import NEARLY_ALL, Cost, Given, Peaks, Summary, peak, sufficed
from gpufairy.core.share import PARTS
from gpufairy.core.usage import UsageRow

SHORT = timedelta(minutes=10)
CostOf: TypeAlias = Callable[[Session, UsageRow, float | None], Cost | None]  # with the energy in joules; None: there is no tariff


async def summary_of(house: House, session: Session, cost_of: CostOf | None = None) -> Summary | None:
    """None: it never ran, or runs still."""
    seat, began, ended = session.seat, session.placed_at or session.started_at, session.ended_at
    if seat is None or began is None or ended is None or session.started_at is None:
        return None
    row = await Chronicle(house).usage_of_session(session) or UsageRow(session.id)
    step = step_of(began, ended, house.clock())
    own = await house.store.history.read(Kind.SESSION, session.id, began, ended, now=house.clock(), step=step)
    given, peaks = given_of(seat), peaks_of(own)
    energy_j = await energy_of(house, seat, began, ended, step)
    cost = None if cost_of is None else cost_of(session, row, energy_j)
    return Summary(ended - session.started_at, row.held_s, row.used_s, energy_j, cost, given, peaks, sufficed(given, peaks))


def step_of(began: datetime, ended: datetime, now: datetime) -> int:
    """Seconds: as fine as is kept of a short one, coarse for one of days."""
    if ended - began < SHORT and now - began < FINE_USAGE:
        return 10
    return 60 if ended - began < FINE_USAGE else 3600


def given_of(seat: Seat) -> Given:
    memory = sum(gpu.memory_bytes for gpu in seat.gpus)
    divisible = not any(gpu.profile for gpu in seat.gpus)
    return Given(seat.gpu_parts / PARTS, memory, seat.cpus_milli / 1000, seat.memory_bytes, divisible)


def peaks_of(own: Series) -> Peaks:
    """While the use was not known for some of the time, nobody can tell the most of it."""
    unknown = [value for value in means(own, "gpus_unknown") if value]
    gpus = None if unknown else peak(means(own, "gpus_used"), NEARLY_ALL)
    return Peaks(gpus, peak(highest(own, "gpu_memory_bytes")), peak(means(own, "cpus"), NEARLY_ALL), peak(highest(own, "memory_bytes")))


def means(series: Series, column: str) -> list[float | None]:
    found = series.columns.get(column)
    return [] if found is None else list(found.mean)


def highest(series: Series, column: str) -> list[float | None]:
    found = series.columns.get(column)
    return [] if found is None or found.max is None else list(found.max)


async def energy_of(house: House, seat: Seat, began: datetime, ended: datetime, step: int) -> float | None:
    """Its share of what its GPUs drew. None: nobody counted it for most of the time."""
    if not seat.gpus or (ended - began).total_seconds() < step:
        return None
    shares = {gpu.uuid: gpu.parts / PARTS for gpu in seat.gpus}
    totals = await house.store.history.totals(Kind.GPU, floor_to(began, step), ended, step=step, names=list(shares))
    drawn = {subject.name: columns["power_w"] for subject, columns in totals.items()}
    if any(drawn.get(uuid, Total()).known_s < 0.5 * (ended - began).total_seconds() for uuid in shares):
        return None
    return sum(share * drawn[uuid].value_s for uuid, share in shares.items())
