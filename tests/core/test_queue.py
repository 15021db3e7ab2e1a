"""Queue: the waiting of one owner, in order and by shape, however they come and go."""
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.queue import Queue, asked_of, queue_key, ready_at, rest_left
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
