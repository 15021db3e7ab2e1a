"""The calendar, at its edges: when a booking begins and ends, whom it is for, and what is told of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpufairy.core.booking import (
    LEAD,
    OPEN,
    UNUSED_AFTER,
    Booking,
    Calendar,
    about,
    clock_words,
    closes,
    gpus_of,
    is_among,
    node_key,
    why_closed,
)
from scenes import NOW, a_node, a_session, seated

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
FIRST, SECOND_GPU = "GPU-gpu01-0", "GPU-gpu01-1"
COURSE = Booking("b1", "course", "kim", ("team:nlp", "user:bob"), (FIRST,), NOW, NOW + 4 * HOUR, NOW - HOUR)
CARE = replace(COURSE, id="b2", title="care", who=(), gpus=(FIRST, node_key("gpu01")))
LENT = NOW + UNUSED_AFTER


def sitting(gpus="1", **fields):
    (session,) = seated([a_session(gpus=gpus, **fields)], [a_node(gpus=2)])
    return session


def calendar(*bookings, live=(), now=NOW, used_at=None):
    return Calendar.of(bookings or (COURSE,), live, now, used_at or {})


@pytest.mark.parametrize(
    ("who", "owner", "team", "among"),
    [
        (("user:bob",), "bob", None, True), (("user:bob",), "ann", None, False), (("team:nlp",), "ann", "nlp", True),
        (("team:nlp",), "ann", "vision", False), (("team:None",), "ann", None, False), (("team:bob",), "bob", None, False),
        (("user:bob", "team:nlp"), "ann", "nlp", True), ((), "bob", "nlp", False),
    ],
)  # fmt: skip
def test_a_booking_is_for_those_it_names_by_user_or_team(who, owner, team, among):
    assert is_among(who, owner, team) is among


@pytest.mark.parametrize(
    ("at", "runs"), [(-SECOND, False), (timedelta(0), True), (4 * HOUR - SECOND, True), (4 * HOUR, False)]
)
def test_a_booking_runs_from_its_start_to_just_before_its_end(at, runs):
    assert COURSE.runs(NOW + at) is runs


@pytest.mark.parametrize(
    ("start", "end", "overlaps"),
    [(-HOUR, timedelta(0), False), (-HOUR, SECOND, True), (4 * HOUR, 5 * HOUR, False), (4 * HOUR - SECOND, 5 * HOUR, True), (HOUR, 2 * HOUR, True)],
)  # fmt: skip
def test_two_times_overlap_unless_one_ends_where_the_other_begins(start, end, overlaps):
    assert COURSE.overlaps(NOW + start, NOW + end) is overlaps


def test_what_is_over_is_no_part_of_the_calendar_and_the_rest_is_by_start():
    later = replace(COURSE, id="b0", start=NOW + HOUR)
    assert calendar(later, COURSE).bookings == (COURSE, later)
    assert calendar(COURSE, now=COURSE.end).bookings == ()
    assert calendar(COURSE, now=COURSE.end - SECOND).bookings == (COURSE,)


def test_who_of_the_booking_sits_there_has_used_it_now_and_others_have_not():
    own, other = sitting(owner="bob"), sitting(owner="ann")
    assert calendar(live=[own]).used_at == {("b1", FIRST): NOW}
    assert calendar(live=[other]).used_at == {}
    before = {("b1", FIRST): NOW - HOUR, ("gone", FIRST): NOW}
    assert calendar(used_at=before).used_at == {("b1", FIRST): NOW - HOUR}
    ahead = replace(COURSE, start=NOW + HOUR)
    assert calendar(ahead, live=[own]).used_at == {}


def test_two_calendars_are_the_same_whatever_they_were_asked():
    asked, fresh = calendar(), calendar()
    asked.closed_to("ann", None, None, NOW)
    assert asked == fresh
    assert "_told" not in repr(asked)


@pytest.mark.parametrize(
    ("at", "lent"), [(LENT - SECOND, False), (LENT, True), (COURSE.end - SECOND, True), (COURSE.end, False)]
)
def test_what_nobody_uses_is_lent_from_a_quarter_of_an_hour_on_to_the_end(at, lent):
    assert calendar().is_lent(COURSE, FIRST, at) is lent


def test_what_was_used_before_the_start_counts_from_the_start():
    used = {("b1", FIRST): NOW - HOUR}
    assert not calendar(used_at=used).is_lent(COURSE, FIRST, LENT - SECOND)


def test_what_is_out_of_use_is_lent_to_nobody():
    assert not calendar(CARE).is_lent(CARE, FIRST, NOW + HOUR)
    assert calendar(CARE).closed_to("bob", "nlp", MINUTE, NOW, guest=True).keys() == {
        FIRST,
        node_key("gpu01"),
    }


@pytest.mark.parametrize(
    ("stay", "guest", "who", "shut"),
    [
        (2 * HOUR, False, ("user:bob",), False), (2 * HOUR + SECOND, False, ("user:bob",), True),
        (9 * HOUR, True, ("user:bob",), False), (9 * HOUR, True, (), True), (None, True, ("user:bob",), False),
    ],
)  # fmt: skip
def test_before_its_start_a_booking_is_in_the_way_of_those_who_would_still_be_there(stay, guest, who, shut):
    assert closes(replace(COURSE, who=who, start=NOW + 2 * HOUR), stay, NOW, guest) is shut


@pytest.mark.parametrize(("ahead", "shut"), [(LEAD, True), (LEAD + SECOND, False)])
def test_of_whom_nobody_knows_the_time_it_is_in_the_way_for_a_day(ahead, shut):
    assert closes(replace(COURSE, start=NOW + ahead, end=NOW + 2 * LEAD), None, NOW, False) is shut


@pytest.mark.parametrize(("at", "shut"), [(timedelta(0), True), (4 * HOUR - SECOND, True), (4 * HOUR, False)])
def test_while_it_runs_it_is_in_everybodys_way(at, shut):
    assert closes(COURSE, SECOND, NOW + at, False) is shut


def test_guests_may_have_what_is_lent_and_not_the_rest_of_the_same_booking():
    both = replace(COURSE, gpus=(FIRST, SECOND_GPU))
    used = calendar(both, now=LENT, used_at={("b1", SECOND_GPU): LENT})
    assert used.closed_to("ann", None, None, LENT, guest=True).keys() == {SECOND_GPU}
    assert used.closed_to("ann", None, None, LENT).keys() == {FIRST, SECOND_GPU}
    assert used.booked_for("ann", None, LENT, guest=True) == {FIRST}
    assert used.booked_for("ann", None, LENT) == frozenset()
    assert used.booked_for("bob", None, LENT) == {FIRST, SECOND_GPU}
    assert used.booked_for("bob", None, NOW - SECOND) == frozenset()


def test_a_guest_is_welcome_on_what_is_lent_and_nobody_else_is():
    guest, other = sitting(preemptible=True), sitting()
    assert calendar().unwelcome(guest, LENT) is None
    assert calendar().unwelcome(other, LENT) == COURSE
    assert calendar().unwelcome(guest, LENT - SECOND) == COURSE
    assert calendar().unwelcome(other, NOW - SECOND) is None
    assert calendar().unwelcome(sitting(owner="bob"), LENT) is None
    assert calendar().unwelcome(a_session(), LENT) is None


def test_one_sits_as_a_guest_only_on_what_is_lent_now():
    guest = sitting(preemptible=True)
    assert calendar().is_guest(guest, LENT)
    assert not calendar().is_guest(guest, LENT - SECOND)
    assert not calendar().is_guest(sitting(owner="bob", preemptible=True), LENT)


def test_only_those_for_whom_it_runs_are_owed_what_a_guest_sits_on():
    guest = sitting(preemptible=True)
    bob, ann = a_session(owner="bob"), a_session(owner="ann")
    assert calendar().owed(bob, guest, NOW) == (FIRST,)
    assert calendar().owed(ann, guest, NOW) == ()
    assert calendar().owed(bob, guest, NOW - SECOND) == ()


def test_bookings_that_are_lent_out_are_those_on_which_a_guest_sits():
    guest, other = sitting(preemptible=True), sitting()
    assert calendar().lent_out([guest, guest], NOW) == (COURSE,)
    assert calendar().lent_out([other], NOW) == ()
    assert calendar().lent_out([guest], NOW - SECOND) == ()
    assert Calendar().lent_out([guest], NOW) == ()


@pytest.mark.parametrize(
    ("limit", "leaves"),
    [(None, True), (2 * HOUR, True), (HOUR + 5 * MINUTE, False), (HOUR + 5 * MINUTE + SECOND, True)],
)
def test_one_must_leave_for_a_booking_at_whose_start_it_would_still_be_there(limit, leaves):
    ahead = replace(COURSE, start=NOW + HOUR)
    session = sitting(time_limit=limit)  # it started five minutes ago
    assert (calendar(ahead).must_leave_for(session, NOW) == ahead) is leaves
    assert calendar(ahead).leaves_by(session, NOW) == (ahead.start if leaves else None)


def test_one_leaves_by_the_first_of_several_bookings_and_at_once_for_one_that_runs():
    session = sitting()
    first, second = replace(COURSE, id="a", start=NOW + HOUR), replace(COURSE, id="b", start=NOW + 2 * HOUR)
    assert calendar(second, first).leaves_by(session, NOW) == NOW + HOUR
    assert calendar().leaves_by(session, NOW) == NOW
    assert calendar().must_leave_for(session, NOW) is None
    assert calendar(first, second).in_the_way_of(session) == (first, second)


def test_a_booking_that_is_taken_out_is_in_nobodys_way():
    assert calendar().without("b1").closed_to("ann", None, None, NOW) == OPEN
    assert calendar().without("b9").bookings == (COURSE,)


@pytest.mark.parametrize(
    ("time", "words"),
    [(SECOND, "1 min"), (89 * SECOND, "1 min"), (91 * SECOND, "2 min"), (2 * HOUR + 20 * SECOND, "2 h")],
)
def test_times_are_told_to_the_minute(time, words):
    assert about(time) == words


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(24 * HOUR - MINUTE, "11:59 UTC"), (24 * HOUR, "2026-11-16 12:00 UTC"), (-23 * HOUR, "13:00 UTC")],
)
def test_the_day_is_told_where_it_is_not_within_one_of_now(ahead, words):
    assert clock_words(NOW + ahead, NOW) == words


def test_why_a_gpu_is_closed_says_from_when_or_until_when():
    assert why_closed(COURSE, NOW - 2 * HOUR) == "booked for course from 12:00 UTC, in 2 h"
    assert why_closed(COURSE, NOW) == "booked for course until 16:00 UTC"
    assert why_closed(COURSE, NOW, lent=True).endswith("; not used, so preemptible sessions may have it")


def test_a_session_sits_on_each_gpu_once():
    assert gpus_of(sitting("2")) == (FIRST, SECOND_GPU)
    assert gpus_of(a_session()) == ()
