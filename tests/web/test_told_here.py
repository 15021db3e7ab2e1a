"""Times in the sentences of core, by the clock of whoever reads them."""
from contextlib import contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gpufairy.web import asked as asking
from gpufairy.web.asked import Asked, Language
from gpufairy.web.told_here import told_here

SEOUL = ZoneInfo("Asia/Seoul")


@contextmanager
def read_by(language: Language = Language.EN, zone=SEOUL):
    token = asking._asked.set(Asked(language, zone=zone))
    try:
        yield
    finally:
        asking._asked.reset(token)


def read(text: str, **reader) -> str:
    with read_by(**reader):
        return told_here(text).replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("written", "read_in_seoul"),
    [
        ("idle for 2 h, since 05:30 UTC: others may need its GPUs", "idle for 2 h, since 14:30: others may need its GPUs"),
        ("no answer since 05:30:07 UTC", "no answer since 14:30:07"),
        ("from: 2026-11-15 20:00 UTC was 2 h ago", "from: Mon 16 Nov 05:00 was 2 h ago"),
        ("14:00-16:00 UTC is booked by bob for CS", "23:00-01:00 is booked by bob for CS"),
        ("2026-11-15 20:00 to 2026-11-16 02:00 UTC", "Mon 16 Nov 05:00 – Mon 16 Nov 11:00"),
    ],
)
def test_a_time_is_told_by_the_readers_clock(written: str, read_in_seoul: str):
    assert read(written) == read_in_seoul


def test_a_day_without_its_year_is_of_this_year():
    there = datetime(datetime.now(UTC).year, 11, 16, 8, 0, tzinfo=SEOUL)
    assert read("kept until 15 Nov 23:00 UTC by ann") == f"kept until {there:%a} 16 Nov 08:00 by ann"


def test_in_korean_too():
    assert read("kept until 15 Nov 23:00 UTC by ann", language=Language.KO).count("08:00") == 1
    assert "UTC" not in read("kept until 15 Nov 23:00 UTC by ann", language=Language.KO)


@pytest.mark.parametrize("text", ["at 99:99 UTC", "2026-13-40 10:00 UTC", "31 Foo 10:00 UTC", "UTC", "10:00 UTCX"])
def test_what_is_no_time_stays_as_it_is(text: str):
    assert read(text) == text


def test_of_whose_clock_nothing_is_known_reads_it_as_it_was_written():
    assert read("no answer since 05:30 UTC", zone=None) == "no answer since 05:30 UTC"
