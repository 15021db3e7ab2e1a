"""The model of a client's history finds what it should: each of these histories lies in one thing."""
import pytest

from history import Said, faults

SHOWN = {"id": "a", "state": "RUNNING", "outcome": None, "exit_code": None, "ended_at": None, "attempt": 1, "revision": 4}
ROW = {"id": "a", "name": "job", "phase": "ended", "outcome": "done"}


def said(what, at_s, **answer):
    return Said(what, "job", at_s, at_s + 0.5, {**SHOWN, **answer})


def refused(what, at_s, status):
    return Said(what, "job", at_s, at_s + 0.5, None, status)


GOOD = [said("submit", 0, state="PENDING", revision=1), said("show", 1), said("show", 2, state="ENDED", outcome="done", revision=5)]


def test_a_plain_life_fits():
    assert faults(GOOD, [ROW]) == []


def test_a_submit_without_an_answer_may_have_been_heard_or_not():
    unheard = Said("submit", "job", 0, 1)
    assert faults([unheard], []) == faults([unheard], [ROW]) == []


def test_calls_that_overlap_may_be_answered_in_either_order():
    late = Said("show", "job", 0.1, 3, SHOWN)
    assert faults([*GOOD, late], [ROW]) == []


LIES = {
    "not in the database": (GOOD, []),
    "2 rows": (GOOD, [ROW, {**ROW, "id": "b"}]),
    "several sessions": ([*GOOD, said("submit", 3, id="b", state="ENDED", outcome="done", revision=5)], [ROW]),
    "not found after": ([*GOOD, refused("show", 4, 404)], [ROW]),
    "revision 2 after 5": ([*GOOD, said("show", 4, state="ENDED", outcome="done", revision=2)], [ROW]),
    "ended as done, and is RUNNING": ([*GOOD, said("show", 4, revision=6)], [ROW]),
    "ended as done, and is ENDED failed": ([*GOOD, said("show", 4, state="ENDED", outcome="failed", revision=6)], [ROW]),
    "STARTING after RUNNING": ([*GOOD[:2], said("show", 2, state="STARTING", revision=5)], [ROW]),
    "never ended": ([*GOOD[:2], said("stop", 2, state="STOPPING", revision=5)], [{**ROW, "phase": "running"}]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(lie):
    history, rows = LIES[lie]
    assert any(lie in wrong for wrong in faults(history, rows)), faults(history, rows)
