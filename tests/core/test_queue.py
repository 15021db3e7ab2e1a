"""Queue: the waiting of one owner, in order and by shape, however they come and go."""
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.queue import (
    Queue,
    asked_of,
    has_been_tried,
    queue_key,
    rank,
    ready_at,
    rest_left,
    shape,
    sitting,
    tries,
)
from scenes import NOW, a_session


def names_in_turn(queue, now=NOW, refused=()):
    return [session.name for session, _ in queue.in_turn(now, refused)]


def test_all_are_there_in_order_of_priority_then_number():
    first, second, urgent = a_session("first"), a_session("second"), a_session("urgent", priority=3)
    queue = Queue([second, urgent, first])
    assert [session.name for session in queue] == ["urgent", "first", "second"] == names_in_turn(queue)
    assert len(queue) == 3


def test_a_refused_shape_is_left_out_whole_and_the_next_of_another_follows():
    waiting = [a_session(f"{gpus}-{n}", gpus) for n in range(3) for gpus in ("8", "1")]
    refused, seen = set(), []
    for session, asked in Queue(waiting).in_turn(NOW, refused):
        seen.append(session.name)
        if session.name.startswith("8"):
            refused.add(asked)
    assert seen == ["8-0", "1-0", "1-1", "1-2"]


def test_one_who_was_refused_by_the_engine_rests_and_then_has_its_old_place():
    resting = a_session("resting", refusals=3, since=NOW)
    queue = Queue([resting, a_session("fresh")])
    assert names_in_turn(queue) == ["fresh"]
    assert len(queue) == 2
    assert names_in_turn(queue, NOW + timedelta(seconds=4)) == ["resting", "fresh"]
    queue.remove(resting)
    assert names_in_turn(queue, NOW + timedelta(seconds=4)) == ["fresh"]


def test_one_who_rests_until_a_time_that_only_a_clock_put_back_can_mean_is_tried_now():
    ahead = NOW + timedelta(days=365)
    queue = Queue([a_session("refused", refusals=3, since=ahead), a_session("made-room", preempted=1, attempt=2, since=ahead)])
    assert names_in_turn(queue) == ["refused", "made-room"]
    assert rest_left(a_session(refusals=3, since=ahead), NOW) == timedelta()
    assert rest_left(a_session(refusals=3, since=NOW), NOW) == timedelta(seconds=4)


def test_a_shape_refused_to_one_team_is_still_looked_at_for_another():
    waiting = [a_session("a-1", team="a"), a_session("a-2", team="a"), a_session("b-1", team="b")]
    refused = set()
    seen = []
    for session, asked in Queue(waiting).in_turn(NOW, refused):
        seen.append(session.name)
        refused.add(asked)
    assert seen == ["a-1", "b-1"]


SESSIONS = st.builds(
    lambda gpus, priority, refusals: a_session(gpus=gpus, priority=priority, refusals=refusals, since=NOW),
    st.sampled_from(["1", "2", "4"]), st.integers(-1, 1), st.sampled_from([0, 0, 1, 4]),
)  # fmt: skip


@given(st.lists(SESSIONS, max_size=15), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10)), max_size=25))
def test_whatever_came_and_went_it_is_as_one_built_anew(sessions, deeds):
    """Each deed puts in the session of that number, or takes it out if it is there, and then lets some seconds pass."""
    queue, there, now = Queue(), {}, NOW
    for number, seconds in deeds:
        if number < len(sessions):
            session = sessions[number]
            if there.pop(session.id, None) is not None:
                queue.remove(session)
            else:
                queue.add(session)
                there[session.id] = session
        now += timedelta(seconds=seconds)
        expected = sorted(there.values(), key=queue_key)
        assert list(queue) == expected
        awake = [session for session in expected if not session.refusals or ready_at(session) <= now]
        assert [session for session, _ in queue.in_turn(now)] == awake
        refused = {asked_of(session) for session in awake[:1]}
        assert [session for session, _ in queue.in_turn(now, refused)] == [s for s in awake if asked_of(s) not in refused]


def test_a_higher_priority_comes_first_and_of_equals_who_submitted_first():
    low, high = a_session(priority=-100), a_session(priority=100)
    assert queue_key(high) < queue_key(low)
    assert queue_key(a_session()) < queue_key(a_session())


def test_whoever_may_be_sent_away_comes_after_all_others_whatever_the_priority():
    guest, last = a_session(priority=100, preemptible=True), a_session(priority=-100)
    assert queue_key(last) < queue_key(guest)
    assert rank(a_session(priority=3)) == -3


@pytest.mark.parametrize(
    ("fields", "rest_s"),
    [
        ({"refusals": 1}, 1), ({"refusals": 2}, 2), ({"refusals": 5}, 16), ({"refusals": 99}, 300), ({"attempt": 3}, 2),
        ({"attempt": 2, "preempted": 1}, 5), ({"attempt": 2, "preempted": 1, "refusals": 1}, 5),
        ({"attempt": 2, "preempted": 1, "refusals": 4}, 8), ({"attempt": 3, "preempted": 1}, 5),
    ],
)  # fmt: skip
def test_one_rests_longer_after_every_try_and_five_seconds_after_it_made_room(fields, rest_s):
    session = a_session(since=NOW, **fields)
    assert ready_at(session) == NOW + timedelta(seconds=rest_s)
    assert has_been_tried(session)


def test_one_that_was_never_tried_is_ready_since_it_was_submitted():
    session = a_session(since=NOW + timedelta(hours=1))
    assert (ready_at(session), has_been_tried(session)) == (session.submitted_at, False)


def test_to_have_made_room_is_no_try_that_went_wrong():
    assert tries(a_session(attempt=3, preempted=2)) == 0
    assert tries(a_session(attempt=3, preempted=1, refusals=1)) == 2


@pytest.mark.parametrize(("early_s", "left_s"), [(0, 0), (1, 1), (300, 300), (301, 0), (-1, 0)])
def test_nobody_rests_for_more_than_five_minutes(early_s, left_s):
    session = a_session(refusals=1, since=NOW - timedelta(seconds=1) + timedelta(seconds=early_s))
    assert rest_left(session, NOW) == timedelta(seconds=left_s)


def test_one_who_rests_can_leave_and_the_others_stay():
    first, second, fresh = a_session("first", refusals=3, since=NOW), a_session("second", refusals=4, since=NOW), a_session("fresh")
    for gone in (first, second, fresh):
        queue = Queue([first, second, fresh])
        queue.remove(gone)
        left = [one.name for one in (first, second, fresh) if one is not gone]
        assert [session.name for session in queue] == names_in_turn(queue, NOW + timedelta(minutes=1)) == left


def test_one_who_was_tried_and_has_rested_can_leave_its_group():
    rested, fresh = a_session("rested", refusals=1, since=NOW), a_session("fresh")
    queue = Queue([rested, fresh])
    assert names_in_turn(queue, NOW + timedelta(seconds=1)) == ["rested", "fresh"]
    queue.remove(rested)
    assert names_in_turn(queue, NOW + timedelta(minutes=1)) == ["fresh"]


def test_one_who_rests_is_tried_at_the_very_second_and_not_before():
    queue = Queue([a_session("resting", refusals=3, since=NOW)])
    assert names_in_turn(queue, NOW + timedelta(seconds=3.9)) == []
    assert names_in_turn(queue, NOW + timedelta(seconds=4)) == ["resting"]


def test_groups_are_walked_through_each_other_in_the_order_of_all():
    waiting = [a_session(f"{n}", gpus) for n, gpus in enumerate(["1", "2", "2", "1", "4", "1"])]
    assert names_in_turn(Queue(waiting)) == ["0", "1", "2", "3", "4", "5"]
    assert names_in_turn(Queue(waiting[::-1])) == ["0", "1", "2", "3", "4", "5"]


def test_when_the_first_of_a_group_leaves_the_next_takes_its_place():
    first, other, second = a_session("first"), a_session("other", "2"), a_session("second")
    queue = Queue([first, other, second])
    queue.remove(first)
    assert names_in_turn(queue) == ["other", "second"]
    queue.remove(second)
    assert names_in_turn(queue) == ["other"]


def test_what_an_image_says_of_the_time_matters_where_there_is_no_limit():
    request = a_session(image="a:1").request
    assert shape(request) != shape(replace(request, image="b:1"))
    limited = replace(request, time_limit=timedelta(hours=1))
    assert shape(limited) == shape(replace(limited, image="b:1"))
    assert sitting(shape(limited)) == sitting(shape(replace(request, gang="g")))
