"""Bookings in the house: made, kept over a restart, told of, made way for, lent, mended and cancelled."""
import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import a_house

from builders import NOW
from gpufairy.api.bookings import shape, shapes
from gpufairy.control.book import Book
from gpufairy.control.booking_watch import MEND_AFTER, BookingWatch
from gpufairy.control.bookings import people_meant
from gpufairy.control.door import submit
from gpufairy.control.find import wait_of
from gpufairy.control.registry import Caller
from gpufairy.core.booking import UNUSED_AFTER
from gpufairy.core.booking_choice import BookingAsk, Limits
from gpufairy.core.errors import BadInput, Conflict, NoSuchThing, NotAllowed
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import NodeState
from gpufairy.core.people import Role, User
from gpufairy.core.plan import plan
from gpufairy.wire.bookings import BookingBody
from gpufairy.wire.config import Config
from gpufairy.wire.read import read
from gpufairy.wire.submit import SubmitBody

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def ask(count=1, start=2 * HOUR, length=2 * HOUR, who=("user:bob",), **fields):
    return BookingAsk("CS231n", "kim", who, count, NOW + start, NOW + start + length, **{"by_admin": True, **fields})


async def book(scene, **fields):
    return await scene.house.bookings.make(ask(**fields), scene.house.nodes, list(scene.house.book.holding()))


async def events(scene, of):
    return [(one.what, one.why) for one in await scene.house.store.events.page(session_id=of.id, limit=50)]


async def submit_as(scene, name, **fields):
    body = SubmitBody.model_validate({"command": ["work"], "gpus": "1", **fields})
    return (await submit(scene.house, Caller(User(name, Role.USER, NOW), "full"), body, {}, None))[0]


async def look(scene, watch, after=timedelta(0)):
    scene.clock.go_on(after)
    await watch.look()
    await scene.rest()


async def test_a_booking_is_kept_over_a_restart_and_leaves_the_calendar_when_it_is_over(tmp_path):
    async with a_house(tmp_path) as scene:
        made = await book(scene, count=2)
        assert await events(scene, made) == [("booked", "2 GPUs for user:bob, 2026-11-15 10:00 UTC to 2026-11-15 12:00 UTC")]
    async with a_house(tmp_path, clock=scene.clock) as scene:
        assert scene.house.bookings.coming() == [made]
        assert scene.house.cluster().calendar.bookings == (made,)
        scene.clock.go_on(5 * HOUR)
        await BookingWatch(scene.house).look()
        assert scene.house.bookings.coming() == []
        assert await scene.house.bookings.past(NOW, scene.clock()) == [made]
        assert [one["state"] for one in await shapes(scene.house, None, None, past=True)] == ["over"]
    async with a_house(tmp_path, clock=scene.clock) as scene:
        assert scene.house.bookings.coming() == []


async def test_two_that_are_made_at_once_never_get_the_same_gpu(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        made = await asyncio.gather(*(book(scene, who=(f"user:u{n}",)) for n in range(3)), return_exceptions=True)
        assert sorted(gpu for one in made if not isinstance(one, Conflict) for gpu in one.gpus) == ["GPU-simulated-0", "GPU-simulated-1"]
        assert sum(isinstance(one, Conflict) for one in made) == 1


async def test_a_booking_sent_twice_is_one(tmp_path):
    async with a_house(tmp_path) as scene:
        bookings, nodes = scene.house.bookings, scene.house.nodes
        first = await bookings.make(ask(), nodes, [], "key-1")
        assert await bookings.make(ask(), nodes, [], "key-1") == first
        with pytest.raises(Conflict, match="is another"):
            await bookings.make(ask(count=2), nodes, [], "key-1")
        with pytest.raises(BadInput, match="Idempotency-Key"):
            await bookings.make(ask(), nodes, [], "")


async def test_one_who_waits_because_of_a_booking_is_told_so_by_why(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await book(scene)
        session = await scene.submit(time="3h")
        await scene.rest()
        waits = await scene.now(session)
        assert waits.phase is Phase.QUEUED
        assert "here GPU 0: booked for CS231n from 10:00 UTC, in 2 h" in wait_of(scene.house, waits).summary
        short = await scene.submit(time="1h")
        await scene.rest()
        assert (await scene.now(short)).phase is Phase.RUNNING


async def test_whoever_is_in_the_way_is_told_twice_and_waits_again_when_the_booking_begins(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        session, watch = await scene.submit(), BookingWatch(scene.house)
        await scene.rest()
        booking = await book(scene)
        for _ in range(3):
            await look(scene, watch)
        assert [what for what, _ in await events(scene, session) if what.startswith("booking")] == ["booking_ahead"]
        await look(scene, watch, 2 * HOUR - 30 * MINUTE)
        assert "CS231n from 10:00 UTC, in 30 min: if it still runs then, it goes back into the queue" in (await events(scene, session))[-1][1]
        assert "CS231n from 10:00" in scene.house.notices.of(session.id)[0]
        await look(scene, watch, 29 * MINUTE)
        assert (await scene.now(session)).phase is Phase.RUNNING
        await look(scene, watch, MINUTE)
        await watch.look()
        assert scene.house.notices.all() == []
        gone = await scene.now(session)
        assert (gone.phase, gone.attempt, gone.preempted) == (Phase.QUEUED, 2, 1)
        assert ("preempted", "its GPU is booked for CS231n until 12:00 UTC") in await events(scene, session)
        member = await submit_as(scene, "bob")
        await scene.rest()
        assert (await scene.now(member)).phase is Phase.RUNNING
        await look(scene, watch, 3 * HOUR)
        assert scene.house.bookings.coming() == []
        assert (await scene.now(member)).phase is Phase.RUNNING, "after the end it is an ordinary one"
        assert shape(scene.house, booking, scene.house.bookings.calendar([]))["state"] == "over"


async def test_of_a_gang_all_leave_or_none(tmp_path):
    async with a_house(tmp_path, gpus=3) as scene:
        await scene.submit(gpus="1", count=2, together=True)
        single, watch = await scene.submit(), BookingWatch(scene.house)
        await scene.rest()
        held = [one for one in scene.house.book.holding() if one.request.gang]
        booked = held[0].seat.gpus[0].uuid
        one_gpu = (replace(scene.house.nodes[0], gpus=tuple(gpu for gpu in scene.house.nodes[0].gpus if gpu.uuid == booked)),)
        await scene.house.bookings.make(ask(start=timedelta(0)), one_gpu, [])
        await watch.look()
        scene.clock.go_on(MINUTE)
        await watch.look()
        assert len(held) == 2
        assert [(await scene.now(one)).phase for one in (*held, single)] == [Phase.STOPPING, Phase.STOPPING, Phase.RUNNING]


async def test_a_notice_is_taken_back_when_the_booking_is_cancelled(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        session, watch = await scene.submit(), BookingWatch(scene.house)
        await scene.rest()
        booking = await book(scene, start=10 * MINUTE)
        await look(scene, watch)
        assert scene.house.notices.of(session.id)
        await scene.house.bookings.cancel(Caller(User("kim", Role.USER, NOW), "full"), booking.id)
        await look(scene, watch)
        assert scene.house.notices.all() == []


async def test_one_who_waits_for_their_booking_is_told_when_it_begins(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await scene.submit()
        await scene.rest()
        booking = await book(scene)
        member, other = await submit_as(scene, "bob", time="1h"), await submit_as(scene, "eve", time="1h")
        await scene.rest()
        assert wait_of(scene.house, await scene.now(member)).forecast_start == booking.start
        assert wait_of(scene.house, await scene.now(other)).forecast_start == booking.end


def test_limits_are_read_from_the_settings_and_nonsense_is_refused():
    assert read(Config, {}, "x").to_booking_limits() == Limits()
    said = read(Config, {"bookings": {"users": False, "most_gpus": 8, "longest": "12h"}}, "x").to_booking_limits()
    assert (said.users, said.most_gpus, said.longest) == (False, 8, timedelta(hours=12))
    for bad in ({"most_gpus": 0}, {"longest": "for ever"}, {"most_ahead": "-1d"}):
        with pytest.raises(BadInput, match="bookings"):
            read(Config, {"bookings": bad}, "x").to_booking_limits()


async def test_nobody_is_sent_away_unwarned_however_young_the_booking(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        session, watch = await scene.submit(), BookingWatch(scene.house)
        await scene.rest()
        await book(scene, start=timedelta(0))
        await look(scene, watch)
        assert (await events(scene, session))[-1] == ("booking_near", "its GPU is booked for CS231n: it goes back into the queue in 30 s")
        await look(scene, watch, timedelta(seconds=29))
        assert (await scene.now(session)).phase is Phase.RUNNING
        await look(scene, watch, timedelta(seconds=1))
        assert (await scene.now(session)).phase is Phase.QUEUED


async def test_a_clock_that_runs_back_tells_nobody_twice_and_sends_nobody_away(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        session, watch = await scene.submit(), BookingWatch(scene.house)
        await scene.rest()
        await book(scene)
        await look(scene, watch, HOUR + 40 * MINUTE)
        told = await events(scene, session)
        await look(scene, watch, -HOUR)
        assert await events(scene, session) == told
        assert (await scene.now(session)).phase is Phase.RUNNING


async def test_what_nobody_uses_is_lent_to_a_preemptible_session_and_returned_when_they_come(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        watch = BookingWatch(scene.house)
        await book(scene, start=MINUTE, length=5 * HOUR)
        scene.clock.go_on(2 * MINUTE)
        guest, ordinary = await scene.submit(preemptible=True), await scene.submit(time="1m")
        await look(scene, watch)
        assert (await scene.now(guest)).phase is (await scene.now(ordinary)).phase is Phase.QUEUED
        await look(scene, watch, 15 * MINUTE)
        assert (await scene.now(guest)).phase is Phase.RUNNING
        assert (await scene.now(ordinary)).phase is Phase.QUEUED
        (shown,) = await shapes(scene.house, None, None, past=False)
        (gpu,) = shown["gpus"]
        assert (shown["state"], gpu["lent"], gpu["node"], gpu["simulated"]) == ("running", True, "here", True)
        await look(scene, watch, HOUR)
        assert (await scene.now(guest)).phase is Phase.RUNNING, "nobody came"
        member = await submit_as(scene, "bob")
        await scene.rest()
        made = plan(scene.house.cluster(), scene.clock())
        assert [(one.victim.id, one.for_session.id) for one in made.evictions] == [(guest.id, member.id)]


async def test_a_vanished_gpu_is_told_and_replaced_after_a_while_with_an_event(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        house, watch, booking = scene.house, BookingWatch(scene.house), await book(scene)
        await watch.look()
        house.nodes = (replace(house.nodes[0], gpus=house.nodes[0].gpus[1:]),)
        await watch.look()
        (shown,) = await shapes(house, None, None, past=False)
        assert shown["trouble"] == shown["gpus"][0]["trouble"] == "here GPU 0 is no longer there"
        scene.clock.go_on(MEND_AFTER)
        await watch.look()
        assert house.bookings.get(booking.id).gpus == ("GPU-simulated-1",)
        assert (await events(scene, booking))[-1] == ("booking_moved", "here GPU 0 is no longer there: here GPU 1 takes its place")
        house.nodes = ()
        for _ in range(3):
            scene.clock.go_on(MEND_AFTER)
            await watch.look()
        assert [what for what, _ in await events(scene, booking)] == ["booked", "booking_moved", "booking_short"]


async def test_a_booking_is_cancelled_by_its_maker_or_an_admin_and_one_that_runs_stays_in_the_history(tmp_path):
    async with a_house(tmp_path) as scene:
        registry, bookings = scene.house.registry, scene.house.bookings
        kim, eve = Caller(await registry.add_user("kim", Role.USER, None), "full"), Caller(await registry.add_user("eve", Role.USER, None), "full")
        boss = Caller(await registry.add_user("boss", Role.ADMIN, None), "full")
        ahead, running = await book(scene), await book(scene, start=timedelta(0))
        with pytest.raises(NotAllowed, match="was made by kim"):
            await bookings.cancel(eve, ahead.id)
        with pytest.raises(NoSuchThing, match="no booking 'nothing'"):
            await bookings.cancel(boss, "nothing")
        scene.clock.go_on(MINUTE)
        await bookings.cancel(kim, ahead.id)
        assert (await bookings.cancel(boss, running.id)).end == scene.clock()
        assert bookings.coming() == []
        scene.clock.go_on(MINUTE)
        assert [one.id for one in await bookings.past(NOW - HOUR, scene.clock())] == [running.id]
        with pytest.raises(NoSuchThing):
            await bookings.cancel(kim, running.id)


async def test_users_book_for_themselves_and_their_team_and_admins_for_anybody_known(tmp_path):
    async with a_house(tmp_path) as scene:
        registry = scene.house.registry
        kim = Caller(await registry.add_user("kim", Role.USER, "nlp"), "full")
        boss = Caller(await registry.add_user("boss", Role.ADMIN, None), "full")
        assert people_meant(registry, scene.house.teams, kim, [], None) == ("user:kim",)
        assert people_meant(registry, scene.house.teams, kim, ["kim"], "nlp") == ("user:kim", "team:nlp")
        assert people_meant(registry, scene.house.teams, boss, ["kim", "boss", "kim"], None) == ("user:kim", "user:boss")
        for caller, users, team, error, words in (
            (kim, ["boss"], None, NotAllowed, "may book for themselves"),
            (kim, [], "vision", NotAllowed, "not in team 'vision'"),
            (boss, ["kin"], None, NoSuchThing, "no user 'kin' .did you mean kim"),
            (boss, [], "nlq", NoSuchThing, "no team 'nlq' .did you mean nlp"),
        ):
            with pytest.raises(error, match=words):
                people_meant(registry, scene.house.teams, caller, users, team)


BODY = {"gpus": 4, "title": "CS231n", "from": "2026-11-20T14:00:00Z"}


def test_a_body_ends_by_a_time_or_a_length_and_is_utc_without_a_zone():
    for end in ({"until": "2026-11-20T16:00"}, {"time": "2h"}, {"until": "2026-11-21T01:00:00+09:00"}):
        asked = read(BookingBody, {**BODY, **end}, "booking").to_ask("kim", ("user:kim",), by_admin=False)
        assert (asked.start.isoformat(), asked.end.isoformat()) == ("2026-11-20T14:00:00+00:00", "2026-11-20T16:00:00+00:00")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "neither until nor time"),
        ({"until": "2026-11-20T16:00:00Z", "time": "2h"}, "both until and time"),
        ({"time": "2h", "from": "soon"}, "from: 'soon' is no time"),
        ({"time": "2h", "from": "9999-12-31T23:59:59-10:00"}, "is no time"),
        ({"time": "2h", "from": "9999-12-31T23:59:59Z"}, "no time that there is"),
        ({"time": "2h", "gpus": "4"}, "gpus"),
        ({"time": "2h", "whom": "bob"}, "unknown field 'whom'"),
        ({"time": "2h", "users": ["u"] * 1001}, "users"),
    ],
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused_in_words(fields, words):
    with pytest.raises(BadInput, match=words):
        read(BookingBody, {**BODY, **fields}, "booking").to_ask("kim", ("user:kim",), by_admin=False)


def test_a_missing_field_is_named_as_it_is_sent():
    with pytest.raises(BadInput, match="field from is missing") as refused:
        read(BookingBody, {"gpus": 4, "title": "x"}, "booking")
    assert "from, until" in refused.value.next_step


class TickingClock:
    """No two readings are the same, as of a real one."""

    def __init__(self, clock):
        self._clock, self._read = clock, 0

    def __call__(self):
        self._read += 1
        return self._clock() + timedelta(microseconds=self._read)


async def test_a_gpu_that_somebody_of_the_booking_still_uses_stays_theirs_though_its_node_is_drained(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        house, booking = scene.house, await book(scene, start=timedelta(0), length=5 * HOUR)
        await submit_as(scene, "bob", cpus=0.5, memory="1GiB")
        await scene.rest()
        (here,) = house.nodes
        booked = [gpu for gpu in here.gpus if gpu.uuid in booking.gpus]
        drained = replace(here, gpus=tuple(booked), state=NodeState.DRAINED)
        house.nodes = (drained, replace(here, name="there", gpus=tuple(gpu for gpu in here.gpus if gpu not in booked)))
        house.clock = house.bookings._clock = TickingClock(scene.clock)
        watch = BookingWatch(house)
        for _ in range(3):
            await watch.look()
            scene.clock.go_on(MEND_AFTER)
        assert house.bookings.get(booking.id).gpus == booking.gpus


async def test_every_one_of_a_gang_is_told_before_it_leaves_for_the_booking_of_one_of_its_gpus(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        first = await scene.submit(gpus="1", count=2, together=True)
        watch = BookingWatch(scene.house)
        await scene.rest()
        booked = (await scene.now(first)).seat.gpus[0].uuid
        (mate,) = [one for one in scene.house.book.holding() if one.id != first.id]
        one_gpu = (replace(scene.house.nodes[0], gpus=tuple(gpu for gpu in scene.house.nodes[0].gpus if gpu.uuid == booked)),)
        await scene.house.bookings.make(ask(start=10 * MINUTE), one_gpu, [])
        await look(scene, watch)
        assert "a GPU of one that started with it is booked for CS231n from 08:10 UTC" in scene.house.notices.of(mate.id)[0]
        assert scene.house.notices.of(first.id)[0].startswith("its GPU is booked for CS231n")
        await look(scene, watch)
        assert [what for what, _ in await events(scene, mate) if what.startswith("booking")] == ["booking_near"]
        scene.clock.go_on(10 * MINUTE)
        await watch.look()
        assert [(await scene.now(one)).phase for one in (first, mate)] == [Phase.STOPPING, Phase.STOPPING]
        await watch.look()
        assert scene.house.notices.all() == []


async def test_a_gang_of_which_one_is_only_placed_leaves_when_that_one_has_started(tmp_path):
    async with a_house(tmp_path, gpus=2) as scene:
        first = await scene.submit(gpus="1", count=2, together=True)
        watch = BookingWatch(scene.house)
        await scene.rest()
        gang = list(scene.house.book.holding())
        placed = next(one for one in gang if one.id != first.id)
        scene.house.book.put(replace(placed, phase=Phase.PLACED))
        booked = (await scene.now(first)).seat.gpus[0].uuid
        one_gpu = (replace(scene.house.nodes[0], gpus=tuple(gpu for gpu in scene.house.nodes[0].gpus if gpu.uuid == booked)),)
        await scene.house.bookings.make(ask(start=timedelta(0)), one_gpu, [])
        for _ in range(3):
            await watch.look()
            scene.clock.go_on(MINUTE)
        assert (await scene.now(first)).phase is Phase.RUNNING
        scene.house.book.put(placed)
        for _ in range(2):
            await watch.look()
            scene.clock.go_on(MINUTE)
        assert {(await scene.now(one)).phase for one in gang} == {Phase.STOPPING}


async def test_what_was_in_use_when_the_server_went_is_not_lent_as_soon_as_it_is_back(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        booking = await book(scene, start=timedelta(0), length=5 * HOUR)
        scene.clock.go_on(HOUR)
    async with a_house(tmp_path, clock=scene.clock, gpus=1) as scene:
        (gpu,) = booking.gpus
        assert not scene.house.cluster().calendar.is_lent(booking, gpu, scene.clock())
        scene.clock.go_on(UNUSED_AFTER)
        assert scene.house.cluster().calendar.is_lent(booking, gpu, scene.clock())


async def test_a_key_sent_again_when_its_booking_is_over_leaves_the_history_as_it_was(tmp_path):
    async with a_house(tmp_path) as scene:
        bookings, nodes = scene.house.bookings, scene.house.nodes
        first = await bookings.make(ask(), nodes, [], "key-1")
        scene.clock.go_on(5 * HOUR)
        bookings.forget_over()
        assert await bookings.make(ask(), nodes, [], "key-1") == first
        with pytest.raises(Conflict, match="is another"):
            await bookings.make(ask(start=6 * HOUR), nodes, [], "key-1")
        assert await bookings.past(NOW, scene.clock()) == [first]


async def test_a_calendar_is_made_from_those_with_a_seat_however_many_wait(tmp_path):
    async with a_house(tmp_path, gpus=1) as scene:
        await book(scene, start=timedelta(0))
        for n in range(3):
            await scene.submit(name=f"waits-{n}")

        def walked(_):
            raise AssertionError("all that are live were looked at")

        scene.house.book.__class__ = type("Watched", (Book,), {"__iter__": walked})
        assert scene.house.cluster().calendar.bookings
        await BookingWatch(scene.house).look()
