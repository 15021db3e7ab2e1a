"""Maintenance windows: what can be one, and what the queue makes of it."""
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, a_node
from gpufairy.core.booking import Calendar
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.fit import Refusal, fit
from gpufairy.core.maintenance import Window, as_booking, as_silence, checked_window, state_words
from gpufairy.core.room import Room
from gpufairy.core.session import Request, Seat
from gpufairy.core.share import parse_share

HOUR = timedelta(hours=1)
WINDOW = Window("w1", "here", NOW + 2 * HOUR, NOW + 4 * HOUR, "kim", "new disk")
NODE = a_node()


def asked(share, stay, now=NOW, *, guest=False):
    request = Request(parse_share(share), ("work",), cpus_milli=100, memory_bytes=2**20, preemptible=guest)
    calendar = Calendar.of([as_booking(WINDOW, [NODE])], [], now)
    return fit(request, Room.empty(NODE), calendar.closed_to("ann", None, stay, now, guest=guest))


@pytest.mark.parametrize("share", ["1", "0.5", "0"])
@pytest.mark.parametrize("guest", [False, True])
def test_what_would_be_over_before_the_window_may_start_and_nothing_else(share, guest):
    assert isinstance(asked(share, HOUR, guest=guest), Seat)
    late = asked(share, 3 * HOUR, guest=guest)
    assert isinstance(late, Refusal)
    assert "maintenance (new disk) from 10:00 UTC, in 2 h" in late.why
    assert isinstance(asked(share, None, guest=guest), Refusal), "nobody knows when it ends"
    assert isinstance(asked(share, HOUR, NOW + 3 * HOUR, guest=guest), Refusal), "the window is open"
    assert isinstance(asked(share, None, NOW + 4 * HOUR, guest=guest), Seat), "it is over"


def test_other_hosts_are_not_concerned():
    calendar = Calendar.of([as_booking(WINDOW, [NODE])], [], NOW)
    there = replace(NODE, name="there", gpus=tuple(replace(gpu, uuid=f"{gpu.uuid}-there") for gpu in NODE.gpus))
    assert isinstance(fit(Request(parse_share("1"), ("work",)), Room.empty(there), calendar.closed_to("ann", None, None, NOW)), Seat)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"end": NOW + 2 * HOUR}, BadInput),
        ({"start": NOW - 2 * HOUR, "end": NOW - HOUR}, BadInput),
        ({"end": NOW + timedelta(days=30)}, BadInput),
        ({"start": NOW + timedelta(days=200), "end": NOW + timedelta(days=201)}, BadInput),
        ({"why": " "}, BadInput),
        ({"why": "x" * 201}, BadInput),
        ({"why": "a\nb"}, BadInput),
        ({"start": NOW + HOUR, "end": NOW + 3 * HOUR, "id": "w2"}, Conflict),
    ],
)
def test_what_can_be_no_window_is_refused_in_words(changed, error):
    with pytest.raises(error) as refused:
        checked_window(replace(WINDOW, **changed), [WINDOW] if error is Conflict else [], NOW)
    assert refused.value.next_step


def test_a_window_is_said_in_words_and_keeps_alerts_of_its_host_silent():
    assert checked_window(replace(WINDOW, node="there"), [WINDOW], NOW).node == "there"
    assert state_words(WINDOW, NOW) == "maintenance until 12:00 UTC: new disk"
    assert (as_silence(WINDOW).node, as_silence(WINDOW).rule) == ("here", "*")
