"""Crowds in small, against the server as it is shipped: others sign in meanwhile, and nothing stays behind. In full: the benchmarks of the same names."""
import pytest
from bench import logins, one_hog, strangers, vanishing

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.quiet]


def missed(report) -> list[str]:
    return [f"{figure.what}: {figure.value} {figure.unit}, goal {figure.goal} ({figure.note})" for figure in report.figures if figure.goal is not None and not figure.met]


def test_a_thousand_who_never_sign_in_are_dropped_in_time_and_others_sign_in_meanwhile():
    assert missed(strangers.measure(strangers=1000, ssh_s=5, http_s=3)) == []


def test_two_hundred_logins_at_once_all_come_in_and_others_sign_in_meanwhile():
    assert missed(logins.measure(logins=200, each=50, held_s=3)) == []


def test_three_hundred_open_pages_that_vanish_leave_nothing_behind():
    assert missed(vanishing.measure(pages=300, cut_off=False)) == []


def test_ten_thousand_queued_by_one_user_hold_up_nobody_else():
    assert missed(one_hog.measure(queued=10_000, submits=200, starts=5)) == []
