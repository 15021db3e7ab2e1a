"""Reports in hand: one of each agent, and no more than can be worked on."""
import pytest

from gpufairy.control.intake import Intake
from gpufairy.core.errors import Busy


def test_an_agent_has_one_report_in_hand():
    intake = Intake()
    with intake.hold("gpu01", 10), pytest.raises(Busy, match="a report of gpu01 is being worked on"), intake.hold("gpu01", 10):
        pass
    with intake.hold("gpu01", 10), intake.hold("gpu02", 10):
        pass


def test_beyond_what_can_be_worked_on_nothing_is_begun_and_nothing_is_even_read():
    intake = Intake(most_bytes=100)
    with intake.hold("gpu01", 60):
        intake.check_room()
        with pytest.raises(Busy, match="as many reports in hand"), intake.hold("gpu02", 50):
            pass
        with intake.hold("gpu03", 40), pytest.raises(Busy):
            intake.check_room()
    intake.check_room()


def test_one_alone_is_taken_however_large_it_is():
    with Intake(most_bytes=100).hold("gpu01", 1000):
        pass


def test_what_fails_is_not_in_hand_any_more():
    intake = Intake()
    with pytest.raises(ZeroDivisionError), intake.hold("gpu01", 10):
        raise ZeroDivisionError
    with intake.hold("gpu01", 10):
        pass
