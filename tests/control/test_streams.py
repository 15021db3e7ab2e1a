"""Open streams of one user: so many, and each is given back once."""
import pytest

from gpufairy.control.streams import Streams
from gpufairy.core.errors import TooMany
from gpufairy.core.limits import Limit, Refusals


def test_one_more_than_a_user_may_have_is_refused_in_words_and_counted_and_others_notice_nothing():
    refusals = Refusals()
    streams = Streams(refusals)
    streams.most = 2
    held = [streams.take("kim"), streams.take("kim")]
    with pytest.raises(TooMany, match="kim has 2 streams open") as refused:
        streams.take("kim")
    assert "limits.streams_per_user" in refused.value.next_step
    assert refusals.totals()[Limit.STREAMS_PER_USER] == 1
    streams.take("lee")
    held[0]()
    streams.take("kim")


def test_a_place_given_back_twice_counts_once():
    streams = Streams(Refusals())
    first, _ = streams.take("kim"), streams.take("kim")
    first()
    first()
    assert (streams.of("kim"), streams.in_all()) == (1, 1)


def test_what_could_not_be_told_is_told_later():
    refusals = Refusals()
    refusals.count(Limit.SSH_CHANNELS, 3)
    told = refusals.taken()
    assert told == {Limit.SSH_CHANNELS: 3}
    assert refusals.taken() == {}
    refusals.add(told)
    refusals.count(Limit.SSH_CHANNELS)
    assert refusals.taken() == {Limit.SSH_CHANNELS: 4}
