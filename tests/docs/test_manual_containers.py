"""Pages of the manual on which sessions are containers: played like the others, on a machine with a Docker of its own."""
import labs
import pytest
from pages import english
from play import play
from stage import IN_CONTAINERS

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("page", IN_CONTAINERS)
def test_every_command_of_the_page_does_what_it_says_in_containers(page):
    with labs.lab() as box:
        wrong = play(box, page, english()[page])
    assert not wrong, "\n\n".join(wrong)
