"""Amounts as people write them."""
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.amounts import parse_cpus, parse_duration, parse_size, show_count, show_duration, show_size, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import made_up, nearest, session_name, user_name
from gpufairy.core.share import NO_GPU, PARTS, Share, ShareKind, parse_share


@pytest.mark.parametrize(
    ("text", "size"),
    [("512MiB", 512 * 2**20), ("16GiB", 16 * 2**30), ("16G", 16 * 2**30), ("1.5 GiB", 3 * 2**29), ("100", 100), ("2GB", 2 * 10**9), ("1t", 2**40)],
)
def test_sizes_read_as_meant(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1G", "16 Gibbon", "1e9", "NaN", "inf", "0", "99999999T", "1" * 5000, "1G2G", "１６GiB"])
def test_sizes_that_are_none_are_refused_in_words(text):
    with pytest.raises(BadInput, match=r"memory: .*") as refused:
        parse_size(text, "memory")
    assert len(str(refused.value)) < 160
    assert refused.value.next_step


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("45m", 2700), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("0.5h", 1800)])
def test_durations_read_as_meant(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "2", "2 hours", "-2h", "0s", "400d", "h", "1h2", "9" * 100 + "s", "1e3s"])
def test_durations_that_are_none_are_refused(text):
    with pytest.raises(BadInput, match=r"time: "):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0", "-1", "x", "NaN", "Infinity", "1e9", "1001", "1" * 300])
def test_absurd_cpus_are_refused(text):
    with pytest.raises(BadInput, match=r"cpus: "):
        parse_cpus(text)


def test_figures_are_shown_with_their_unit():
    assert [show_size(n) for n in (1, 1536, 2**34, 3 * 2**39)] == ["1 B", "1.5 KiB", "16 GiB", "1.5 TiB"]
    assert [show_duration(timedelta(seconds=s)) for s in (0, 45, 125, 7500, 90000)] == ["0 s", "45 s", "2 min 5 s", "2 h 5 min", "1 d 1 h"]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0", NO_GPU), ("2", Share(ShareKind.WHOLE, 2 * PARTS)), ("0.5", Share(ShareKind.FRACTION, PARTS // 2)),
        ("0.5fgpu", Share(ShareKind.FGPU, PARTS // 2)), ("1fGPU", Share(ShareKind.FGPU, PARTS)), ("mig:1g.5gb", Share(ShareKind.MIG, 0, "1g.5gb")),
        (".25", Share(ShareKind.FRACTION, PARTS // 4)), ("1.0", Share(ShareKind.WHOLE, PARTS)), ("mig:1g.5gb+me", Share(ShareKind.MIG, 0, "1g.5gb+me")),
    ],
)  # fmt: skip
def test_shares_read_as_meant_and_back(text, share):
    assert parse_share(text) == share
    assert parse_share(str(share)) == share


@pytest.mark.parametrize("text", ["", "-1", "1.5", "half", "mig:", "mig:../x", "1e3", "9999", "NaN", "0.5 0.5", "mig:1g.5gb;rm", "0.5gpu"])
def test_shares_that_are_none_are_refused(text):
    with pytest.raises(BadInput, match=r"gpus: "):
        parse_share(text)


@given(st.text(max_size=200))
def test_no_text_breaks_a_parser(text):
    for parse in (parse_size, parse_duration, parse_cpus, parse_share, session_name, user_name):
        try:
            parse(text)
        except BadInput as refused:
            assert len(refused.detail) < 200
            assert "\n" not in refused.detail


@given(st.text())
def test_what_strangers_sent_is_shown_on_one_bounded_line(text):
    assert len(shown(text)) <= 60
    assert shown(text).isprintable()


def test_a_made_up_name_is_always_free_and_always_a_name():
    taken = set()
    for chance in [7, 7, 7, 123456789, 0]:
        name = made_up(chance, taken.__contains__)
        assert session_name(name) not in taken
        taken.add(name)


def test_the_nearest_word_is_offered():
    assert nearest("memroy", ["memory", "gpus"]) == " (did you mean memory?)"
    assert nearest("zzz", ["memory", "gpus"]) == ""


def test_one_thing_is_told_in_the_singular():
    told = [show_count(0, "user"), show_count(1, "user"), show_count(1200, "session"), show_count(2, "stretch", "stretches")]
    assert told == ["0 users", "1 user", "1,200 sessions", "2 stretches"]
