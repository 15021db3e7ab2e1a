"""`[reclaim]` and preemption in fairy.toml: defaults, a team of its own, and what is refused in words."""
from datetime import timedelta

import pytest

from gpufairy.core.errors import BadInput
from gpufairy.core.preempt import Preempt
from gpufairy.core.reclaim import Ladder
from gpufairy.wire.config import load_config


@pytest.fixture
def settings(tmp_path):
    def load(text):
        (tmp_path / "fairy.toml").write_text(text)
        return load_config(tmp_path / "fairy.toml")

    return load


def test_without_a_word_idle_sessions_are_warned_and_lent_and_no_more(settings):
    ladders = settings("").reclaim.to_ladders()
    assert ladders.default == Ladder(timedelta(hours=1), timedelta(minutes=30), lend=True, shrink=False, stop=False)
    assert ladders.teams == {}


def test_a_team_has_what_it_says_and_else_what_all_have(settings):
    ladders = settings('[reclaim]\ngrace = "5m"\nstop = true\n[reclaim.teams.nlp]\nidle_after = "off"\nlend = false\n').reclaim.to_ladders()
    assert ladders.teams["nlp"] == Ladder(None, timedelta(minutes=5), lend=False, shrink=False, stop=True)
    assert ladders.default.idle_after == timedelta(hours=1)


def test_preemption_is_of_marked_sessions_unless_it_is_said_otherwise(settings):
    policy = settings("").to_policy()
    assert (policy.preempt, policy.preempt_after, policy.preempt_notice) == (Preempt.MARKED, timedelta(minutes=10), timedelta(seconds=30))
    assert settings('[policy]\npreempt = "lower"\npreempt_after = "1h"').to_policy().preempt is Preempt.LOWER


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[policy]\npreempt = "all"', "policy.preempt: found 'all'"),
        ('[reclaim]\nidle_after = "soon"', "reclaim.idle_after: 'soon' is no duration"),
        ('[reclaim.teams.nlp]\ngrace = "-1h"', "reclaim.teams.nlp.grace: '-1h' is no duration"),
        ("[reclaim]\nlends = true", "lends"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(settings, text, words):
    def read():
        loaded = settings(text)
        return loaded.to_policy(), loaded.reclaim.to_ladders()

    with pytest.raises(BadInput, match=words.replace(".", r"\.")):
        read()
