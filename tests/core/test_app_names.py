"""Apps: their names, how they are started, and host names that never meet."""
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.apps import APPS, app_named, host_label
from gpufairy.core.errors import BadInput
from gpufairy.core.names import SESSION_NAME, USER_NAME

# Few letters, so that names which could be mistaken for each other come often.
SESSIONS = st.one_of(st.from_regex(r"[ab0](?:[ab0-]{0,6}[ab0])?", fullmatch=True), st.from_regex(SESSION_NAME, fullmatch=True))
USERS = st.one_of(st.from_regex(r"[ab][ab0_-]{0,6}", fullmatch=True), st.from_regex(USER_NAME, fullmatch=True))
PLACES = st.tuples(SESSIONS, USERS, st.integers(1, 60))


@given(PLACES, PLACES)
def test_two_apps_never_share_a_host_name(one, other):
    assert (host_label(*one) == host_label(*other)) == (one == other)


@given(PLACES)
def test_a_host_name_is_one_that_dns_and_browsers_take(place):
    label = host_label(*place)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", label)
    assert label[2:4] != "--"


@pytest.mark.parametrize(("one", "other"), [(("a-b", "c"), ("a", "b-c")), (("a", "b_c"), ("a", "b-c")), (("a-2", "b"), ("a", "b"))])
def test_names_that_read_alike_are_told_apart(one, other):
    assert host_label(*one, 1) != host_label(*other, 1)
    assert host_label(*one, 2) != host_label(*other, 2)


def test_a_plain_name_stays_readable():
    assert host_label("train-bert", "kim", 1) == "train-bert-kim"
    assert host_label("train-bert", "kim", 2) == "train-bert-kim-2"


@pytest.mark.parametrize("text", ["", "Jupyter", "jupyter ", "port:0", "port:65536", "port:-1", "port:8e3", "port:", "../jupyter", "x" * 500])
def test_what_is_no_app_is_refused_in_words(text):
    with pytest.raises(BadInput, match="app: ") as refused:
        app_named(text)
    assert "jupyter" in refused.value.next_step


def test_any_port_is_an_app_that_is_not_ours_to_start():
    app = app_named("port:8000")
    assert (app.name, app.port, app.programs) == ("port:8000", 8000, ())


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.name)
def test_every_program_is_started_on_loopback_at_the_port_it_is_given(app):
    for program in app.programs:
        argv = app.argv(program, 4711)
        assert argv[0] == program.partition(":")[0]
        assert any("4711" in word for word in argv)
        assert any("127.0.0.1" in word for word in argv)
        assert not any("{" in word for word in argv)
    assert app.to_get
