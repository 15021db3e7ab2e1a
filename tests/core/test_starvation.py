"""Nobody waits for ever: plan() over simulated time, with an endless supply of others behind, wrong estimates, gangs and pools."""
import heapq
from dataclasses import replace
from datetime import timedelta
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufairy.core.fit import fit
from gpufairy.core.lifecycle import Phase
from gpufairy.core.plan import plan
from gpufairy.core.promise import PATIENCE
from gpufairy.core.room import Room
from gpufairy.core.run_time import RunTimes
from gpufairy.core.session import Outcome, Seat
from gpufairy.core.timeline import SHORT
from scenes import NOW, a_cluster, a_node, a_session

MINUTE = timedelta(minutes=1)
LONGEST = 180 * MINUTE  # that anybody runs
BEHIND = 6  # always so many wait behind those who are watched


class World:
    """Sessions sit where plan() puts them, and leave when their time is up, whatever was believed of it."""

    def __init__(self, nodes, run_times):
        self.nodes, self.run_times, self.now = nodes, run_times, NOW
        self.waiting, self.holding, self.runs, self.ends, self.started = [], {}, {}, [], {}

    def submit(self, session, run):
        limit = session.request.time_limit
        self.runs[session.id] = run if limit is None else min(run, limit)
        self.waiting.append(replace(session, submitted_at=self.now, since=self.now))

    def cluster(self):
        gangs = {}
        for session in self.waiting:
            if session.request.gang is not None:
                gangs[session.request.gang] = (*gangs.get(session.request.gang, ()), session)
        return a_cluster(self.nodes, self.waiting, self.holding.values(), run_times=self.run_times, gangs=gangs)

    def give_seats(self):
        made = plan(self.cluster(), self.now)
        for placed in made.placed:
            key = placed.session.id
            self.waiting = [session for session in self.waiting if session.id != key]
            self.holding[key] = replace(
                placed.session, seat=placed.seat, phase=Phase.RUNNING, placed_at=self.now, started_at=self.now, since=self.now
            )
            self.started[key] = self.now
            heapq.heappush(self.ends, (self.now + self.runs[key], key))
        return made

    def go_on(self):
        """To the next end."""
        self.now = self.ends[0][0]
        while self.ends and self.ends[0][0] <= self.now:
            del self.holding[heapq.heappop(self.ends)[1]]


def believed(minutes):
    """Past runs, of which everybody was so long: what estimates say, whatever the truth is."""
    known = RunTimes()
    ended = a_session(owner="ann", image="i", phase=Phase.ENDED, outcome=Outcome.DONE, ended_at=NOW, started_at=NOW - minutes * MINUTE)
    for _ in range(6 if minutes else 0):
        known.ended(ended)
    return known


def ever_fits(session, nodes):
    return any(isinstance(fit(session.request, Room.empty(node)), Seat) for node in nodes)


NODES = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, "a"])), min_size=1, max_size=3).map(
    lambda made: [a_node(f"n{place}", gpus=gpus, pool=pool, cpus=64, memory_gib=512) for place, (gpus, pool) in enumerate(made)]
)
ASKED = st.tuples(
    st.sampled_from(["1", "1", "2", "3", "0.5"]), st.sampled_from([None, None, 20, 60, 170]), st.integers(1, 180), st.sampled_from([None, "a"])
)
SMALL = st.tuples(st.just("1"), st.sampled_from([None, None, 20, 60]), st.integers(40, 180), st.none())  # those who find a gap most easily


def of(asked, **fields):
    gpus, limit, _, pool = asked
    return a_session(gpus=gpus, image="i", pool=pool, time_limit=limit and limit * MINUTE, cpus_milli=500, **fields)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    NODES, st.lists(ASKED, min_size=1, max_size=3), st.lists(ASKED, min_size=2, max_size=12) | st.lists(SMALL, min_size=2, max_size=12),
    st.sampled_from([0, 5, 100, 600]), st.booleans(),
)  # fmt: skip
def test_everybody_starts_whatever_comes_behind(nodes, first, behind, estimate_minutes, gang):
    """Within a time that does not hang on how many come behind: those who hold seats leave, and nobody takes their place for long."""
    world = World(nodes, believed(estimate_minutes))
    for asked in (behind * 6)[:12]:  # all is taken when they come
        session = of(asked)
        if ever_fits(session, nodes):
            world.submit(session, asked[2] * MINUTE)
    world.give_seats()
    world.waiting.clear()
    watched = [session for asked in first if ever_fits(session := of(asked, priority=1), nodes)]
    if gang and len(watched) == 2 and sum(len(node.gpus) for node in nodes) >= 6 and all(len(node.gpus) >= 3 for node in nodes):
        watched = [replace(one, request=replace(one.request, gang="g", gang_size=2, pool=None)) for one in watched]
    for session, asked in zip(watched, first, strict=False):
        world.submit(session, asked[2] * MINUTE)
    supply = cycle(behind)
    gpus = sum(len(node.gpus) for node in nodes)
    bound = NOW + len(watched) * (PATIENCE + SHORT + (gpus + 2) * LONGEST)
    while any(session.id not in world.started for session in watched) and world.now <= bound:
        ids = {session.id for session in watched}
        world.waiting = [session for session in world.waiting if session.id in ids]  # others come in place of those who found no gap
        for asked in (next(supply) for _ in range(BEHIND)):
            world.submit(of(asked), asked[2] * MINUTE)
        world.give_seats()
        if not world.ends:
            break
        world.go_on()
    assert {session.id for session in watched} <= set(world.started), (world.now - NOW, [s.request for s in watched])


def test_estimates_that_are_always_wrong_keep_nobody_waiting_for_ever():
    """Everybody is taken for five minutes and stays for more than an hour, one always there when the other leaves."""
    world = World([a_node(gpus=2, cpus=64)], believed(5))
    behind = cycle(("1", None, minutes, None) for minutes in (100, 67, 91, 73, 113))
    watched = of(("2", None, 1, None), priority=1)
    while watched.id not in world.started:
        for asked in (next(behind) for _ in range(4)):
            world.submit(of(asked), asked[2] * MINUTE)
        world.give_seats()
        if world.now == NOW:
            world.submit(watched, MINUTE)
        world.go_on()
        assert world.now < NOW + PATIENCE + 2 * LONGEST


LIMITED = st.tuples(st.sampled_from(["1", "2", "3", "0.5"]), st.integers(5, 300), st.integers(1, 300), st.none())


@settings(max_examples=60, deadline=None)
@given(NODES, st.lists(LIMITED, min_size=1, max_size=10), LIMITED, st.lists(LIMITED, min_size=2, max_size=12), st.sampled_from([0, 5, 600]))
def test_those_with_limits_never_delay_a_promised_start(nodes, there, head, behind, estimate_minutes):
    world = World(nodes, believed(estimate_minutes))
    for asked in there:
        session = of(asked)
        if ever_fits(session, nodes):
            world.submit(session, asked[2] * MINUTE)
    world.give_seats()
    world.waiting.clear()
    watched = of(head, priority=1)
    if not ever_fits(watched, nodes):
        return
    world.submit(watched, MINUTE)
    promised = next((one.start for one in world.give_seats().promises if one.session.id == watched.id), NOW)
    supply = cycle(behind)
    while watched.id not in world.started:
        for _ in range(BEHIND):
            asked = next(supply)
            world.submit(of(asked), asked[2] * MINUTE)
        made = world.give_seats()
        told = next((one.start for one in made.promises if one.session.id == watched.id), world.now)
        assert told <= promised  # and never put off
        promised = told
        if watched.id not in world.started:
            world.go_on()
    assert world.started[watched.id] <= promised
