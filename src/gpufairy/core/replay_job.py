"""Job: one line of a trace, as it is replayed. Trace: all of them, in order of submission, checked."""
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.session import Request

MOST_SHOWN = 5  # faults in one error: whoever mends those looks again
USERS_DRAWN = 30  # of a trace that names none: a lab
ZIPF = 1.1  # how unequal they are: the first asks about twice as often as the second, as people do


@dataclass(frozen=True, slots=True)
class Job:
    line: int  # where the trace has it
    name: str
    user: str  # empty: the trace does not say
    submit: datetime
    duration: timedelta
    request: Request
    team: str | None = None
    priority: int = 0
    after: tuple[str, ...] = ()  # names of jobs that must have ended


@dataclass(frozen=True, slots=True)
class Trace:
    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()  # what was taken otherwise than it was written, in words


def checked(jobs: Sequence[Job], what: str, notes: Iterable[str] = ()) -> Trace:
    """Sorted by submission, users drawn where none are named; refused if empty, or if jobs wait for each other in a circle."""
    if not jobs:
        raise BadInput(f"{what}: found no jobs", "Give it at least one line below the names of its columns.")
    said = list(notes)
    back = [job.line for before, job in pairwise(jobs) if job.submit < before.submit]
    if back:
        said.append(f"{len(back)} times of submission run back, first on line {back[0]}: sorted")
    in_order = sorted(jobs, key=lambda job: (job.submit, job.line))
    if not all(job.user for job in in_order):
        in_order = with_users_drawn(in_order)
        said.append(f"the trace names no users: drawn for it, {USERS_DRAWN} by Zipf's law ({ZIPF}), the same each time")
    refuse_circles(in_order, what)
    return Trace(tuple(in_order), tuple(said))


def with_users_drawn(jobs: Sequence[Job], users: int = USERS_DRAWN, seed: int = 0) -> list[Job]:
    """For those who have none."""
    parts = 1.0 / np.arange(1, users + 1) ** ZIPF
    drawn = np.random.default_rng(seed).choice(users, size=len(jobs), p=parts / parts.sum())
    return [job if job.user else replace(job, user=f"user{number + 1:02d}") for job, number in zip(jobs, drawn.tolist(), strict=True)]


def with_limits(trace: Trace, factor: float) -> Trace:
    """As if each that set no time limit had asked for so many times what it takes; a minute at the least."""
    without = sum(job.request.time_limit is None for job in trace.jobs)
    if not without:
        return trace
    note = f"{without} jobs set no time limit: replayed as if they had asked for {factor:g} times what they take"
    return Trace(tuple(with_limit(job, factor) for job in trace.jobs), (*trace.notes, note))


def with_limit(job: Job, factor: float) -> Job:
    if job.request.time_limit is not None:
        return job
    return replace(job, request=replace(job.request, time_limit=max(job.duration * factor, timedelta(minutes=1))))


def refuse_circles(jobs: Sequence[Job], what: str) -> None:
    waiting = [job for job in jobs if job.after]
    if not waiting:
        return
    by_name, named = {job.name: job for job in jobs}, {name for job in waiting for name in job.after}
    twice = [job for job in jobs if job.name in named and by_name[job.name] is not job]
    if twice:
        refuse([(job.line, f"another job is named {shown(job.name)} too, and one comes after it") for job in twice], what)
    unknown = [(job, name) for job in waiting for name in job.after if name not in by_name]
    if unknown:
        refuse([(job.line, f"comes after {shown(name)}, which is no job of the trace") for job, name in unknown], what)
    left = {job.name: job for job in waiting}
    while free := [name for name, job in left.items() if not any(other in left for other in job.after)]:
        for name in free:
            del left[name]
    if left:
        circle = one_circle(left)
        words = " after ".join([*(f"{name} (line {by_name[name].line})" for name in circle), circle[0]])
        raise BadInput(f"{what}: jobs that wait for each other: {words}", "Take one of them out of its `after`.")


def one_circle(left: Mapping[str, Job]) -> list[str]:
    """All that are left wait for another of them: whoever is followed far enough comes again."""
    path = [next(iter(left))]
    while True:
        upcoming = next(name for name in left[path[-1]].after if name in left)
        if upcoming in path:
            return path[path.index(upcoming) :]
        path.append(upcoming)


def refuse(faults: Sequence[tuple[int, str]], what: str) -> None:
    """Of many the first few: with their lines."""
    said = "; ".join(f"line {line}: {fault}" for line, fault in faults[:MOST_SHOWN])
    more = f"; and {len(faults) - MOST_SHOWN} more" if len(faults) > MOST_SHOWN else ""
    raise BadInput(f"{what}: {said}{more}", "Mend or leave out those lines.")
