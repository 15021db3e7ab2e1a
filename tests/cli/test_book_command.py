"""`fairy book`: times in the user's own zone, what is sent, the list, and the calendar as text."""
import json
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gpufairy.cli.book_calendar import drawn, span_of
from gpufairy.cli.when import parse_when
from gpufairy.core.errors import BadInput

SEOUL, BERLIN = ZoneInfo("Asia/Seoul"), ZoneInfo("Europe/Berlin")
SUNDAY = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)  # 17:00 in Seoul


@pytest.fixture
def in_seoul(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def a_gpu(index=0, **fields):
    return {"uuid": f"GPU-{index}", "node": "gpu01", "index": index, "kind": "A100", "trouble": None, "lent": False, "fgpu": 1, **fields}


def a_booking(**fields):
    return {
        "id": "3f9a1c", "title": "CS231n", "made_by": "kim", "who": ["team:nlp"], "from": "2026-11-20T05:00:00Z",
        "until": "2026-11-20T07:00:00Z", "made_at": "2026-11-15T08:00:00Z", "state": "ahead", "gpus": [a_gpu(0), a_gpu(1)],
        "trouble": None, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-20 14:00", "2026-11-20T05:00"),
        ("2026-11-20T14:00Z", "2026-11-20T14:00"),
        ("2026-11-20T14:00+02:00", "2026-11-20T12:00"),
        ("18:00", "2026-11-15T09:00"),
        ("9:30", "2026-11-16T00:30"),
        ("17:00", "2026-11-16T08:00"),
        ("today 23:00", "2026-11-15T14:00"),
        ("Tomorrow 14:00", "2026-11-16T05:00"),
        ("tomorrow 24:00", "2026-11-16T15:00"),
        ("tomorrow", "2026-11-15T15:00"),
        ("fri 9:30", "2026-11-20T00:30"),
        ("friday 9", "2026-11-20T00:00"),
        ("sunday 9:00", "2026-11-22T00:00"),
        ("now", "2026-11-15T08:00"),
        ("in 2h", "2026-11-15T10:00"),
        ("+90m", "2026-11-15T09:30"),
    ],
)  # fmt: skip
def test_a_time_without_a_zone_is_the_users_own(text, utc):
    assert parse_when(text, SUNDAY, "--from", SEOUL).isoformat(timespec="minutes") == f"{utc}+00:00"


@pytest.mark.parametrize("text", ["", "soon", "25:00", "24:30", "12:60", "14", "fr 9:00", "2026-13-01 10:00", "tomorrow noon", "1 2 3", "in", "in -2h", "٣:00"])
def test_what_is_no_time_is_told_with_examples(text):
    with pytest.raises(BadInput, match="--from: ") as refused:
        parse_when(text, SUNDAY, "--from", SEOUL)
    assert refused.value.next_step


def test_an_hour_that_the_clock_leaves_out_is_none_and_one_that_comes_twice_is_the_first():
    with pytest.raises(BadInput, match="clocks are put forward"):
        parse_when("2027-03-28 02:30", SUNDAY, "--from", BERLIN)
    assert parse_when("2026-10-25 02:30", SUNDAY, "--from", BERLIN) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_booking_is_sent_in_utc_and_told_in_the_users_zone(in_seoul, server, fairy):
    server.answers["POST", "/bookings"] = (201, a_booking())
    done = fairy(
        "book", "--gpus", "4", "--gpu-kind", "A100", "--from", "2026-11-20 14:00", "--for", "2h", "--team", "nlp", "--title", "CS231n"
    )
    (sent,) = server.calls("POST", "/bookings")
    times = {"from": "2026-11-20T05:00:00Z", "until": "2026-11-20T07:00:00Z"}
    assert sent.body == {"gpus": 4, "gpu_kind": "A100", "team": "nlp", "title": "CS231n", **times}
    assert "Idempotency-Key" in sent.headers
    assert done.out == "booked 3f9a1c: gpu01 GPU 0,1 A100, Fri 20 Nov 14:00-16:00, for team:nlp\n"
    assert "Everybody sees the title" in done.err


def test_until_is_the_first_such_time_after_the_beginning(in_seoul, server, fairy):
    server.answers["POST", "/bookings"] = (201, a_booking())
    fairy("book", "--gpus", "1", "--from", "2030-11-20 23:00", "--until", "1:00", "--title", "x", "--user", "bob", "--user", "kim", "--json")
    (sent,) = server.calls("POST", "/bookings")
    assert (sent.body["from"], sent.body["until"], sent.body["users"]) == ("2030-11-20T14:00:00Z", "2030-11-20T16:00:00Z", ["bob", "kim"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "4"], "a booking needs --from, --for or --until, --title"),
        (["--team", "nlp"], "a booking needs --gpus, --from, --for or --until, --title"),
        (["--gpus", "4", "--from", "now", "--for", "2h", "--until", "14:00", "--title", "x"], "are two ends"),
        (["--gpus", "4", "--from", "whenever", "--for", "2h", "--title", "x"], "--from: 'whenever' is no time"),
        (["--gpus", "4", "--from", "now", "--for", "long", "--title", "x"], "--for: 'long' is no duration"),
        (["--gpus", "half"], "--gpus"),
    ],
)  # fmt: skip
def test_what_is_missing_or_makes_no_sense_is_told_and_never_sent(server, fairy, options, words):
    done = fairy("book", *options)
    assert (done.code, words in done.err) == (2, True)
    assert not server.calls("POST", "/bookings")


def test_bookings_are_listed_alone_or_with_those_that_are_over(in_seoul, server, fairy):
    lent = [a_gpu(0, lent=True), a_gpu(1, node="gpu02", simulated=True)]
    server.answers["GET", "/bookings"] = {"items": [a_booking(state="running", gpus=lent, title="a\x1bb"), a_booking(trouble="gpu01 GPU 0 is gone")]}
    for words in (["book"], ["book", "list"]):
        lines = fairy(*words).out.splitlines()
        assert lines[0].split() == ["ID", "WHEN", "GPUS", "FOR", "BY", "STATE", "TITLE"]
        assert "gpu01 GPU 0 A100; gpu02 GPU 1 A100 simulated" in lines[1]
        assert "running, 1 lent" in lines[1]
        assert "\x1b" not in lines[1]
        assert "ahead, gpu01 GPU 0 is gone" in lines[2]
    assert len(json.loads(fairy("book", "list", "--past", "--json").out)["items"]) == 2
    assert server.calls("GET", "/bookings")[-1].query == {"past": "1"}
    server.answers["GET", "/bookings"] = {"items": []}
    assert fairy("book").out.startswith("Nothing is booked. Try: fairy book --gpus 4")


def test_one_is_cancelled_by_its_id_and_an_unknown_one_is_told(in_seoul, server, fairy):
    server.answers["DELETE", "/bookings/3f9a1c"] = a_booking(state="cancelled")
    assert fairy("book", "cancel", "3f9a1c").out == "cancelled CS231n (3f9a1c), Fri 20 Nov 14:00-16:00, for team:nlp, by kim\n"
    assert fairy("book", "cancel", "other").code == 4


def test_the_calendar_of_a_day_has_a_row_for_each_gpu_and_a_letter_for_each_booking(in_seoul, server, fairy):
    other = a_booking(id="77", title="deadline", gpus=[a_gpu(1)], **{"from": "2026-11-20T07:00:00Z", "until": "2026-11-20T09:15:00Z"})
    server.answers["GET", "/bookings"] = {"items": [a_booking(), other]}
    server.answers["GET", "/gpus"] = {"items": [a_gpu(0), a_gpu(1), a_gpu(2, fgpu=None)]}
    lines = fairy("book", "show", "--day", "2026-11-20").out.splitlines()
    assert server.calls("GET", "/bookings")[-1].query == {"from": "2026-11-19T15:00:00Z", "to": "2026-11-20T15:00:00Z"}
    assert lines[0].strip() == "Friday, 20 November 2026, KST"
    assert lines[1].split() == [f"{hour:02}" for hour in range(0, 24, 2)]
    at_14 = lines[1].index("14")
    assert (lines[2][:16].strip(), lines[2][at_14 : at_14 + 4], lines[2].count("A"), len(lines)) == ("gpu01 GPU 0 A100", "AAAA", 5, 7)
    assert lines[3].replace(" ", "").endswith("AAAABBBBB" + lines[3][-11:])
    assert lines[5:] == [
        "A  CS231n (3f9a1c), Fri 20 Nov 14:00-16:00, for team:nlp, by kim",
        "B  deadline (77), Fri 20 Nov 16:00-18:15, for team:nlp, by kim",
    ]


def test_the_calendar_of_a_week_is_four_hours_a_character_and_shows_a_gpu_that_is_no_longer_there(in_seoul):
    lost = a_booking(gpus=[a_gpu(0), {**a_gpu(9), "node": None, "index": None}], trouble="GPU-9 is no longer there")
    lines = drawn([lost], [a_gpu(0)], span_of(datetime(2026, 11, 16), 7, SUNDAY))
    assert lines[0].strip() == "16 November to 22 November 2026, KST"
    assert lines[1].split() == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert [line.count("A") - line.count("A100") for line in lines[2:4]] == [1, 1]
    assert lines[3].startswith("GPU-9 ")
    assert lines[5].endswith("by kim; GPU-9 is no longer there")
    assert drawn([], [a_gpu(0)], span_of(datetime(2026, 11, 16), 7, SUNDAY))[-1] == "Nothing is booked then."


def test_the_day_on_which_clocks_change_has_an_hour_more(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    span = span_of(datetime(2026, 10, 25), 1, SUNDAY)
    assert span.end - span.start == timedelta(hours=25)
    assert len(span.cells) == 50
    monkeypatch.undo()
    time.tzset()
