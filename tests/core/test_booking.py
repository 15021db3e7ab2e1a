"""Bookings: to whom a booked GPU is closed and when, what is lent, which GPUs a booking gets, and what no pass of the plan may do."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpufairy.core.booking import LEAD, OPEN, UNUSED_AFTER, Booking, Calendar
from gpufairy.core.booking_choice import BookingAsk, Limits, make_booking
from gpufairy.core.booking_repair import mended, places, troubles
from gpufairy.core.errors import BadInput, Conflict, FairyError, NeverFits, NotAllowed
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node import NodeState
from gpufairy.core.plan import plan
from gpufairy.core.steps import place
from scenes import NOW, a_cluster, a_node, a_session, names, seated

pytestmark = pytest.mark.slow

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
GPU = "GPU-gpu01-0"
CS231N = Booking("b1", "CS231n", "kim", ("team:nlp", "user:bob"), (GPU,), NOW + 2 * HOUR, NOW + 4 * HOUR, NOW)


def a_calendar(*bookings, live=(), now=NOW, used_at=None):
    return Calendar.of(bookings or (CS231N,), live, now, used_at or {})


def closed(stay=None, now=NOW, owner="ann", team=None, guest=False, calendar=None):
    return (calendar or a_calendar(now=now)).closed_to(owner, team, stay, now, guest=guest)


def test_before_the_start_whoever_is_gone_by_then_may_start():
    assert closed(2 * HOUR) == OPEN
    assert closed(2 * HOUR + MINUTE) == {GPU: "booked for CS231n from 14:00 UTC, in 2 h"}


def test_one_whose_time_nobody_knows_may_start_until_a_day_before():
    assert closed(None, CS231N.start - LEAD - MINUTE) == OPEN
    assert "booked for CS231n from 2026-11-15 14:00 UTC, in 1 d" in closed(None, CS231N.start - LEAD)[GPU]


def test_those_of_the_booking_may_start_before_and_while_it_runs():
    for now in (NOW, CS231N.start + HOUR):
        assert closed(None, now, "bob") == closed(9 * HOUR, now, "zoe", "nlp") == OPEN
        assert closed(None, now, "zoe", "vision") != OPEN


def test_while_it_runs_it_is_closed_to_others_and_afterwards_open_to_all():
    assert closed(MINUTE, CS231N.start) == {GPU: "booked for CS231n until 16:00 UTC"}
    assert closed(MINUTE, CS231N.end) == closed(None, CS231N.end) == OPEN


def test_what_nobody_of_it_uses_is_lent_after_a_quarter_of_an_hour_to_preemptible_sessions_alone():
    just_before, then = CS231N.start + UNUSED_AFTER - MINUTE, CS231N.start + UNUSED_AFTER
    assert closed(None, just_before, guest=True) != OPEN
    assert closed(None, then, guest=True) == OPEN
    assert closed(MINUTE, then)[GPU] == "booked for CS231n until 16:00 UTC; not used, so preemptible sessions may have it"


def test_a_short_absence_lends_nothing_and_a_long_one_does():
    then = CS231N.start + HOUR
    for left_at, lent in ((then - UNUSED_AFTER + MINUTE, False), (then - UNUSED_AFTER, True)):
        calendar = a_calendar(now=then, used_at={("b1", GPU): left_at})
        assert calendar.is_lent(CS231N, GPU, then) is lent


def sitting_on(gpu_count=1, **fields):
    (session,) = seated([a_session(gpus=str(gpu_count), **fields)], [a_node(gpus=gpu_count)])
    return session


def test_while_somebody_of_it_is_there_nothing_is_lent_whatever_the_hour():
    then = CS231N.start + HOUR
    calendar = a_calendar(live=[sitting_on(owner="bob")], now=then)
    assert not calendar.is_lent(CS231N, GPU, then)
    assert closed(None, then, guest=True, calendar=calendar) != OPEN


def test_a_guest_may_stay_until_somebody_of_the_booking_comes():
    then, guest, ordinary = CS231N.start + HOUR, sitting_on(preemptible=True), sitting_on()
    empty = a_calendar(live=[guest], now=then)
    assert empty.is_guest(guest, then)
    assert empty.unwelcome(guest, then) is None
    assert empty.owed(a_session(owner="bob"), guest, then) == (GPU,)
    assert empty.owed(a_session(owner="ann"), guest, then) == ()
    assert empty.unwelcome(ordinary, then) == CS231N
    used = a_calendar(live=[guest, sitting_on(owner="bob")], now=then)
    assert used.unwelcome(guest, then) == CS231N


def test_who_would_still_be_there_at_the_start_must_leave_and_those_of_it_need_not():
    endless, short = sitting_on(), sitting_on(time_limit=HOUR)
    assert a_calendar().must_leave_for(endless, NOW) == CS231N
    assert a_calendar().must_leave_for(short, NOW) is a_calendar().must_leave_for(sitting_on(owner="bob"), NOW) is None
    assert a_calendar().unwelcome(endless, NOW) is None
    assert a_calendar(now=CS231N.start).unwelcome(endless, CS231N.start) == CS231N
    assert a_calendar(now=CS231N.end).unwelcome(endless, CS231N.end) is None


def test_the_next_booking_does_not_shut_a_gpu_to_those_whose_it_is_now():
    after = replace(CS231N, id="b2", who=("user:zoe",), start=CS231N.end, end=CS231N.end + HOUR)
    calendar = a_calendar(CS231N, after, now=CS231N.start)
    assert calendar.closed_to("bob", None, 8 * HOUR, CS231N.start) == OPEN
    assert calendar.closed_to("zoe", None, HOUR, CS231N.start) == {GPU: "booked for CS231n until 16:00 UTC"}


def test_owners_are_concerned_by_name_and_by_the_team_of_what_they_ask_for():
    asked = (("bob", None), ("zoe", "nlp"), ("zoe", None), ("ann", "vision"))
    assert [a_calendar().concerns(*one) for one in asked] == [True, True, False, False]
    assert not a_calendar().without("b1").concerns("bob", None)


def test_what_is_booked_for_a_team_is_open_to_the_same_owner_s_sessions_of_that_team():
    now = CS231N.start
    waiting = [a_session("own", owner="zoe"), a_session("of-nlp", owner="zoe", team="nlp")]
    made = plan(a_cluster([a_node()], waiting, calendar=a_calendar(now=now)), now)
    assert names(made) == ["of-nlp"]


def test_however_many_wait_for_what_is_not_there_whoever_booked_a_lent_gpu_has_it_back():
    good, drained = a_node("gpu01"), a_node("gpu02", 8, state=NodeState.DRAINED)
    drained = replace(drained, gpus=tuple(replace(gpu, kind="H100") for gpu in drained.gpus))
    now = CS231N.start + HOUR
    guest = seated([a_session("guest", owner="eve", preemptible=True)], [good], minutes_ago=60)
    hopeless = [a_session(owner=f"u{n}", gpu_kind="H100", time_limit=(n + 1) * MINUTE) for n in range(60)]
    mine = a_session("mine", owner="bob")
    cluster = a_cluster([good, drained], [*hopeless, mine], guest, calendar=a_calendar(live=guest, now=now))
    assert [(one.victim.name, one.for_session.name) for one in plan(cluster, now).evictions] == [("guest", "mine")]


def plan_with_a_borrower(*waiting):
    """Half of the booked GPU is lent to eve, and the other half is free."""
    now = CS231N.start + HOUR
    borrower = seated([a_session("borrower", "0.5", "eve", preemptible=True)], [a_node()], minutes_ago=60)
    made = plan(a_cluster([a_node()], waiting, borrower, calendar=a_calendar(live=borrower, now=now)), now)
    return names(made), [eviction.victim.name for eviction in made.evictions]


def test_no_more_is_lent_of_what_somebody_of_the_booking_waits_for():
    more = a_session("more", "0.5", "eve", preemptible=True)
    assert plan_with_a_borrower(more) == (["more"], [])
    assert plan_with_a_borrower(more, a_session("mine", owner="bob")) == ([], ["borrower"])


def test_lending_goes_on_though_somebody_of_the_booking_waits_for_more_than_is_booked():
    more, too_much = a_session("more", "0.5", "eve", preemptible=True), a_session("too-much", "2", "bob")
    assert plan_with_a_borrower(more, too_much) == (["more"], [])


def test_others_of_the_booking_still_start_beside_a_borrower_that_one_of_them_waits_for():
    assert plan_with_a_borrower(a_session("mine", owner="bob", priority=1), a_session("half", "0.5", "bob"))[0] == ["half"]


def test_a_clock_that_runs_back_closes_and_opens_again():
    used = {("b1", GPU): CS231N.start + HOUR}
    earlier = a_calendar(now=CS231N.start + MINUTE, used_at=used)
    assert not earlier.is_lent(CS231N, GPU, CS231N.start + MINUTE)
    assert closed(HOUR, NOW, calendar=earlier) == OPEN


def test_one_who_waits_because_of_a_booking_is_told_so():
    waiting = a_session("late", time_limit=3 * HOUR)
    made = plan(a_cluster([a_node()], [waiting], calendar=a_calendar()), NOW)
    assert made.refusals_of(waiting)[0].why == "gpu01 GPU 0: booked for CS231n from 14:00 UTC, in 2 h"


def test_what_is_booked_is_told_beside_what_is_full():
    nodes, waiting = [a_node(gpus=2)], a_session("late", "1")
    (holder,) = seated([a_session(on_gpu="GPU-gpu01-1")], nodes)
    made = plan(a_cluster(nodes, [waiting], [holder], calendar=a_calendar()), NOW)
    told = "gpu01 has 0 of 1 GPUs wholly free, 1 asked; gpu01 GPU 0: booked for CS231n from 14:00 UTC, in 2 h"
    assert made.refusals_of(waiting)[0].why == told


def ask(**fields):
    return replace(BookingAsk("CS231n", "kim", ("team:nlp",), 2, NOW + HOUR, NOW + 3 * HOUR), **fields)


def book(asked, nodes=None, bookings=(), holding=(), limits=None, now=NOW):
    nodes = nodes or [a_node("gpu01", 4), a_node("gpu02", 2)]
    return make_booking(asked, "b9", nodes=nodes, bookings=bookings, holding=holding, limits=limits or Limits(), now=now)


def test_it_gets_gpus_that_nobody_has_to_leave_on_one_node_and_leaves_the_large_rest_whole():
    assert book(ask()).gpus == ("GPU-gpu02-0", "GPU-gpu02-1")
    nodes = [a_node("gpu01", 4), a_node("gpu02", 2)]
    (holder,) = seated([a_session(gpus="2")], nodes[1:])
    assert book(ask(), nodes, holding=[holder]).gpus == ("GPU-gpu01-0", "GPU-gpu01-1")
    leaves_in_time = replace(holder, request=replace(holder.request, time_limit=HOUR))
    assert book(ask(), nodes, holding=[leaves_in_time]).gpus == ("GPU-gpu02-0", "GPU-gpu02-1")
    assert book(ask(who=(f"user:{holder.owner}",)), nodes, holding=[holder]).gpus == ("GPU-gpu02-0", "GPU-gpu02-1")


def test_it_is_of_one_kind_where_that_can_be():
    h200 = a_node("gpu03", 2)
    h200 = replace(h200, gpus=tuple(replace(gpu, kind="H200-141GB") for gpu in h200.gpus))
    assert {gpu[:9] for gpu in book(ask(count=2), [a_node("gpu01", 1), h200]).gpus} == {"GPU-gpu03"}
    assert len(book(ask(count=3), [a_node("gpu01", 1), h200]).gpus) == 3
    assert book(ask(count=1, gpu_kind="H200"), [a_node("gpu01", 1), h200]).gpus == ("GPU-gpu03-0",)


def test_a_user_sends_nobody_away_without_a_day_of_notice_and_an_admin_may():
    nodes = [a_node("gpu01", 2)]
    holding = seated([a_session(gpus="1")], nodes)
    with pytest.raises(Conflict, match="only 1 of the 2 GPUs that are free of bookings are sure to be empty"):
        book(ask(), nodes, holding=holding)
    assert len(book(ask(by_admin=True), nodes, holding=holding).gpus) == 2
    assert len(book(ask(start=NOW + LEAD, end=NOW + LEAD + HOUR), nodes, holding=holding).gpus) == 2


def test_what_is_booked_then_is_told_with_the_first_time_that_is_free():
    taken = Booking("b1", "CS231n", "kim", ("team:nlp",), (GPU, "GPU-gpu01-1"), NOW + 2 * HOUR, NOW + 4 * HOUR, NOW)
    with pytest.raises(Conflict) as refused:
        book(ask(count=4, gpu_kind="A100", made_by="lee"), [a_node(gpus=4)], [taken])
    assert str(refused.value) == "only 2 of 4 A100 GPUs are free of bookings then; 14:00-16:00 UTC is booked by kim for CS231n"
    assert refused.value.next_step.startswith("4 are free from 2026-11-15 16:00 UTC, for 2 h.")
    after = ask(count=4, start=taken.end, end=taken.end + HOUR)
    assert len(book(after, [a_node(gpus=4)], [taken]).gpus) == 4


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"count": 0}, BadInput, "0 asked"),
        ({"count": 10**9}, BadInput, "1000000000 asked"),
        ({"count": 7, "by_admin": True}, NeverFits, "7 GPUs asked, and there are 6"),
        ({"gpu_kind": "H200"}, NeverFits, "2 H200 GPUs asked, and there are 0"),
        ({"pool": "attic"}, NeverFits, "2 GPUs in pool attic asked, and there are 0"),
        ({"start": NOW - HOUR}, BadInput, "11:00 UTC was 1 h ago"),
        ({"end": NOW + HOUR}, BadInput, "13:00 UTC is not after 2026-11-15 13:00 UTC"),
        ({"title": ""}, BadInput, "title"),
        ({"title": "a\nb"}, BadInput, "title"),
        ({"title": "x" * 81}, BadInput, "title"),
        ({"who": ()}, BadInput, "nobody is named"),
        ({"end": NOW + timedelta(days=8)}, NotAllowed, "it is for 7 d 23 h, and a booking may be for 7 d"),
        ({"end": NOW + timedelta(days=31), "by_admin": True}, BadInput, "a booking may be for 30 d"),
        ({"start": NOW + timedelta(days=31), "end": NOW + timedelta(days=32)}, NotAllowed, "users may book 30 d ahead"),
        ({"count": 5}, NotAllowed, "5 GPUs asked; a user may have 4 at a time"),
    ],
)  # fmt: skip
def test_what_cannot_be_booked_is_refused_in_words(fields, error, words):
    with pytest.raises(error, match=words):
        book(ask(**fields))


def test_a_user_has_so_many_at_a_time_in_all_and_none_where_admins_alone_book():
    mine = Booking("b1", "x", "kim", ("user:kim",), ("GPU-gpu01-0", "GPU-gpu01-1", "GPU-gpu01-2"), NOW + 2 * HOUR, NOW + 9 * HOUR, NOW)
    with pytest.raises(NotAllowed, match="2 GPUs asked, and 3 booked for that time already"):
        book(ask(), bookings=[mine])
    assert book(ask(made_by="lee"), bookings=[mine])
    assert book(ask(end=NOW + 2 * HOUR), bookings=[mine])
    with pytest.raises(NotAllowed, match="by admins here"):
        book(ask(), limits=Limits(users=False))
    assert book(ask(by_admin=True), limits=Limits(users=False))


def test_from_now_is_now_when_it_arrives_a_moment_later():
    assert book(ask(start=NOW - timedelta(seconds=30))).start == NOW


def test_a_node_out_of_use_is_not_booked_and_a_silent_one_may_be():
    nodes = [a_node("gpu01", 2, state=NodeState.DRAINED)]
    with pytest.raises(Conflict, match="0 of 2 are in use here: gpu01 is drained"):
        book(ask(), nodes)
    assert len(book(ask(), [a_node("gpu01", 2, state=NodeState.SILENT)]).gpus) == 2


def test_a_lost_gpu_is_told_and_another_of_its_kind_and_pool_takes_its_place():
    before = [a_node("gpu01", 2), a_node("gpu02", 2), a_node("gpu03", 1)]
    known = places(before)
    booking = replace(CS231N, gpus=(GPU, "GPU-gpu01-1"))
    after = [replace(before[0], gpus=before[0].gpus[1:]), *before[1:]]
    assert troubles(booking, before, known) == {}
    assert troubles(booking, after, known) == {GPU: "gpu01 GPU 0 is no longer there"}
    assert troubles(booking, [replace(before[0], state=NodeState.SILENT)], known) == {}
    assert set(troubles(booking, [replace(before[0], state=NodeState.DRAINED)], known)) == set(booking.gpus)
    fields = {"nodes": after, "holding": [], "known": known, "now": NOW}
    assert mended(booking, GPU, bookings=[booking], **fields).gpus == ("GPU-gpu03-0", "GPU-gpu01-1")
    others = replace(CS231N, id="b2", gpus=("GPU-gpu02-0", "GPU-gpu02-1", "GPU-gpu03-0"))
    assert mended(booking, GPU, bookings=[booking, others], **fields) is None
    assert mended(replace(CS231N, gpus=("GPU-9",)), "GPU-9", bookings=[], **fields) is None


def test_an_empty_gpu_elsewhere_takes_the_place_of_a_lost_one_before_one_beside_it_that_somebody_uses():
    before = [a_node("gpu01", 3), a_node("gpu02", 1)]
    known, booking = places(before), replace(CS231N, gpus=(GPU, "GPU-gpu01-1"))
    after = [replace(before[0], gpus=before[0].gpus[1:]), before[1]]
    ann = seated([a_session(owner="ann")], [replace(before[0], gpus=before[0].gpus[2:])])
    fields = {"bookings": [booking], "holding": ann, "known": known, "now": NOW}
    assert mended(booking, GPU, nodes=after, **fields).gpus == ("GPU-gpu02-0", "GPU-gpu01-1")
    assert mended(booking, GPU, nodes=after, **{**fields, "holding": []}).gpus == ("GPU-gpu01-2", "GPU-gpu01-1")


def test_nobody_leaves_for_a_lost_gpu_with_less_notice_than_for_a_user_s_booking():
    before = [a_node("gpu01", 1), a_node("gpu02", 1)]
    known, ann = places(before), seated([a_session(owner="ann")], before[1:])
    soon, late = (replace(CS231N, start=NOW + LEAD - by, end=NOW + 2 * LEAD) for by in (MINUTE, timedelta(0)))
    fields = {"nodes": before[1:], "bookings": [], "holding": ann, "known": known, "now": NOW}
    assert mended(soon, GPU, **fields) is None
    assert mended(late, GPU, **fields).gpus == ("GPU-gpu02-0",)


asks = st.builds(
    lambda count, start, length, admin: ask(
        count=count, start=NOW + start * HOUR, end=NOW + (start + length) * HOUR, by_admin=admin, made_by="kim" if admin else "lee"
    ),
    st.integers(1, 5), st.integers(0, 40), st.integers(1, 20), st.booleans(),
)  # fmt: skip


@given(st.lists(asks, max_size=25))
def test_two_bookings_never_share_a_gpu_at_a_time(asked):
    made = []
    for one in asked:
        try:
            booking = book(one, bookings=made)
        except FairyError as refused:
            assert str(refused)
            assert refused.next_step
            continue
        assert len(set(booking.gpus)) == one.count
        made.append(booking)
    for number, one in enumerate(made):
        for other in made[:number]:
            assert not one.overlaps(other.start, other.end) or set(one.gpus).isdisjoint(other.gpus)


OWNERS = (("ann", None), ("bob", None), ("zoe", "nlp"), ("eve", "vision"))
requests = st.tuples(
    st.sampled_from(OWNERS), st.sampled_from(["1", "2", "0.5"]), st.sampled_from([None, 30, 90, 400]), st.booleans(), st.integers(0, 20)
)
booked = st.tuples(
    st.integers(0, 3), st.integers(1, 12), st.integers(1, 8), st.sampled_from([("user:bob",), ("team:nlp",), ("user:ann", "user:bob")])
)
TICK = 15 * MINUTE


class World:
    """Plan, sessions that end at their limit or when sent away, and the rules of the bookings loop, in steps of a quarter of an hour."""

    def __init__(self, bookings):
        self.nodes, self.bookings = [a_node("gpu01", 4)], bookings
        self.waiting, self.holding, self.used_at, self.waited = [], [], {}, {}

    def tick(self, now, came):
        self.waiting += came
        self.holding = [one for one in self.holding if one.expected_end is None or one.expected_end > now]
        for sent in [one for one in self.holding if self.calendar(now).unwelcome(one, now) is not None]:
            self.send_back(sent)
        made = plan(a_cluster(self.nodes, self.waiting, self.holding, calendar=self.calendar(now)), now)
        for placed in made.placed:
            started = place(placed.session, placed.seat, now, "").after
            self.holding.append(replace(started, phase=Phase.RUNNING, started_at=now))
        gone = {placed.session.id for placed in made.placed}
        self.waiting = [one for one in self.waiting if one.id not in gone]
        # Those who have come make a guest on the same GPU unwelcome; and for those who could not, guests are asked to leave.
        beside = [one for one in self.holding if self.calendar(now).unwelcome(one, now) is not None]
        assert all(one.request.preemptible for one in beside)
        for sent in beside + [eviction.victim for eviction in made.evictions if eviction.victim not in beside]:
            self.send_back(sent)

    def send_back(self, sent):
        self.holding.remove(sent)
        self.waiting.append(replace(sent, phase=Phase.QUEUED, seat=None, started_at=None, placed_at=None))

    def calendar(self, now):
        made = Calendar.of(self.bookings, [*self.holding, *self.waiting], now, self.used_at)
        self.used_at = made.used_at
        return made


def the_bookings(drawn):
    made = []
    for number, (first, start, length, who) in enumerate(drawn):
        one = Booking(f"b{number}", f"class {number}", "kim", who, (f"GPU-gpu01-{first}",), NOW + start * TICK, NOW + (start + length) * TICK, NOW)
        if not any(one.overlaps(other.start, other.end) and one.gpus == other.gpus for other in made):
            made.append(one)
    return made


def came_at(drawn, step, now):
    return [
        a_session(f"s{step}-{number}", gpus, owner, team=team, time_limit=limit and limit * MINUTE, preemptible=guest, submitted_at=now, since=now)
        for number, ((owner, team), gpus, limit, guest, at) in enumerate(drawn)
        if at == step
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(booked, min_size=1, max_size=5), st.lists(requests, max_size=15))
def test_nobody_else_sits_on_a_booked_gpu_while_those_of_it_use_it(drawn, drawn_requests):
    world = World(the_bookings(drawn))
    for step in range(24):
        now = NOW + step * TICK
        world.tick(now, came_at(drawn_requests, step, now))
        calendar = world.calendar(now)
        for booking in (one for one in world.bookings if one.runs(now)):
            for session in world.holding:
                on_it = {part.uuid for part in session.seat.gpus} & set(booking.gpus)
                for gpu in on_it if not booking.is_for(session.owner, session.team) else ():
                    assert session.request.preemptible
                    assert calendar.is_lent(booking, gpu, now)


def ann_asks(gpus, *, at=0, preemptible=False, times=1):
    return [(("ann", None), gpus, None, preemptible, at)] * times


@settings(max_examples=60, deadline=None)
# While the member waits for a borrower to leave, another borrower comes and is given the rest of the booked GPU.
@example(
    drawn=[(0, 1, 4, ("user:bob",))],
    drawn_requests=ann_asks("1", times=3) + ann_asks("0.5", preemptible=True) + ann_asks("0.5", preemptible=True, at=3),
    which=0, come=2, endless=False,
)
@example(
    drawn=[(3, 2, 3, ("user:ann", "user:bob")), (0, 1, 1, ("user:bob",)), (1, 2, 3, ("user:bob",))],
    drawn_requests=ann_asks("1") + ann_asks("1", at=1, times=7) + ann_asks("0.5") + ann_asks("0.5", preemptible=True, times=2),
    which=0, come=1, endless=False,
)  # fmt: skip
@given(
    drawn=st.lists(booked, min_size=1, max_size=5), drawn_requests=st.lists(requests, max_size=15),
    which=st.integers(0, 4), come=st.integers(-3, 3), endless=st.booleans(),
)  # fmt: skip
def test_a_member_who_fits_on_what_is_booked_starts_at_the_start_or_once_a_guest_has_left(drawn, drawn_requests, which, come, endless):
    world = World(the_bookings(drawn))
    booking = world.bookings[which % len(world.bookings)]
    start = (booking.start - NOW) // TICK
    arrives = max(0, start + come)
    limit = None if endless else 9 * HOUR
    for step in range(max(start, arrives) + 2):
        now = NOW + step * TICK
        came = came_at(drawn_requests, step, now)
        if step == arrives:
            # Of nobody else's bookings, and first among those of this one: what is booked is enough for one.
            member = a_session("member", "1", "mia", team="class", priority=9, time_limit=limit, submitted_at=now, since=now)
            came.append(member)
            world.bookings = [replace(one, who=("team:class",)) if one is booking else one for one in world.bookings]
        world.tick(now, came)
    if not booking.runs(NOW + (max(start, arrives) + 1) * TICK):
        return  # it came when the booking was nearly over
    assert "member" not in [one.name for one in world.waiting]


def test_one_promised_the_gpu_after_a_booking_does_not_keep_those_of_the_booking_from_it():
    waiting = [a_session("head", owner="ann", submitted_at=NOW - HOUR), a_session("member", owner="bob", number=10**6)]
    made = plan(a_cluster([a_node()], waiting, calendar=a_calendar(now=CS231N.start)), CS231N.start)
    assert names(made) == ["member"]
    made = plan(a_cluster([a_node()], waiting[:1], calendar=a_calendar(now=CS231N.start)), CS231N.start)
    assert made.promise.start == CS231N.end


def test_the_short_pass_one_whom_a_booking_keeps_waiting():
    waiting = [a_session("long", owner="ann", time_limit=9 * HOUR), a_session("short", owner="eve", time_limit=HOUR)]
    assert names(plan(a_cluster([a_node()], waiting, calendar=a_calendar()), NOW)) == ["short"]
