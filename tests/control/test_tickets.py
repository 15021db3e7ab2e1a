"""Tickets open one app, once, soon."""
from datetime import timedelta

from builders import NOW
from gpufairy.control.clock import HeldClock
from gpufairy.control.tickets import Tickets


def test_a_ticket_works_once_for_the_app_it_was_made_for_and_tells_whose_it_is():
    tickets = Tickets(HeldClock(NOW))
    text = tickets.make("one", "t1")
    used = tickets.use(text, "one")
    assert used is not None
    assert (used.stall_id, used.token_id) == ("one", "t1")
    assert not tickets.use(text, "one")


def test_a_ticket_shown_at_another_app_is_used_up():
    tickets = Tickets(HeldClock(NOW))
    text = tickets.make("one")
    assert not tickets.use(text, "other")
    assert not tickets.use(text, "one")


def test_a_ticket_is_good_for_a_minute():
    clock = HeldClock(NOW)
    tickets = Tickets(clock)
    early, late = tickets.make("one"), tickets.make("one")
    clock.go_on(timedelta(seconds=59))
    assert tickets.use(early, "one")
    clock.go_on(timedelta(seconds=2))
    assert not tickets.use(late, "one")


def test_nothing_is_no_ticket():
    tickets = Tickets(HeldClock(NOW))
    assert not tickets.use("", "")
    assert not tickets.use("fairyt_", "")
