"""The pure parts of the live screen: lines of the last minutes, order, sums, rates, words, colours."""
import pytest
from canned import GIB, a_gpu, a_host, a_node, a_process, an_instance
from textual.color import Color

from gpufairy.client.gpu_rows import gpu_rows
from gpufairy.client.values import safe
from gpufairy.tui.app import TopApp
from gpufairy.tui.cells import Cell, Line, cell, cut, grid
from gpufairy.tui.gpu_view import memory_bar
from gpufairy.tui.history import SLOT_S, History
from gpufairy.tui.order import Order, arranged, natural
from gpufairy.tui.palette import DARK, HUES, LIGHT, hue_of, style_of
from gpufairy.tui.people_view import session_table, user_table
from gpufairy.tui.rates import RateBook, Rates
from gpufairy.tui.scene import scene_of
from gpufairy.tui.sparkline import chart, sparkline
from gpufairy.tui.views import TABLES
from gpufairy.tui.words import of_total, rate
from gpufairy.web import words as pages


def test_a_sparkline_draws_what_is_not_known_as_a_gap_and_zero_as_the_thinnest_line():
    assert sparkline([0.0, None, 0.5, 1.0, 2.0, -1.0]) == "▁ ▄▇▇▁"


def test_a_chart_has_as_many_rows_as_asked_and_gaps_in_all_of_them():
    assert chart([1.0, None, 0.5, 0.0], 2) == ["█   ", "█ █▁"]


def line(key, under=None, words="", **values):
    return Line(key, (), values, words, under)


def test_lines_are_sorted_with_those_under_them_and_the_unknown_last():
    lines = [line("a", use=0.2), line("b", use=None), line("c", use=None), line("c1", under="c", use=0.9), line("c2", under="c", use=0.1)]
    assert [one.key for one in arranged(lines, Order("use", falling=True))] == ["c", "c1", "c2", "a", "b"]
    assert [one.key for one in arranged(lines, Order("use"))] == ["c", "c1", "c2", "a", "b"]


def test_a_filter_wants_every_word_and_keeps_the_gpu_of_an_instance_that_matches():
    lines = [line("a", words="gpu01 alice"), line("b", words="gpu02"), line("b1", under="b", words="gpu02 alice")]
    assert [one.key for one in arranged(lines, Order(), "ALICE gpu02")] == ["b", "b1"]


def test_numbers_in_names_are_numbers():
    assert sorted(["gpu10", "gpu9", "GPU1"], key=natural) == ["GPU1", "gpu9", "gpu10"]


def test_history_is_what_the_server_remembers_and_then_what_is_seen():
    history, now_s = History(), 1_800_000_000.0
    history.see("GPU-1", now_s, 0.5)
    times = ["2027-01-15T07:59:50Z", "2027-01-15T07:59:55Z", "2027-01-15T08:00:00Z", "2020-01-01T00:00:00Z", "no time"]
    history.fill("GPU-1", {"times": times, "columns": {"utilisation": {"mean": [1.0, None, 0.1, 0.3]}}}, now_s)
    assert history.wide("GPU-1", now_s)[-3:] == [1.0, None, 0.5]
    assert history.wide("GPU-1", now_s + SLOT_S)[-1] is None
    assert history.wide("GPU-unseen", now_s) == [None] * 120


@pytest.mark.parametrize("answer", [{}, {"times": None, "columns": None}, {"times": ["2027-01-15T08:00:00Z"], "columns": {"utilisation": {"mean": []}}}])
def test_an_empty_history_is_no_history(answer):
    history = History()
    history.fill("GPU-1", answer, 0.0)
    assert set(history.narrow("GPU-1", 0.0)) == {None}


def test_a_server_whose_clock_is_ahead_draws_up_to_now():
    history = History()
    history.fill("GPU-1", {"times": ["2027-01-15T09:00:00Z"], "columns": {"utilisation": {"mean": [1.0]}}}, 1_800_000_000.0)
    assert history.wide("GPU-1", 1_800_000_000.0)[-1] == 1.0


def host_with(at, read, device="nvme0n1"):
    return a_node(host=a_host(at=at, disks=[{"device": device, "read_bytes": read, "written_bytes": 0}]))


def test_rates_come_from_two_readings_and_stand_until_there_is_a_newer_one():
    book = RateBook()
    assert book.see([host_with("2026-11-15T08:00:00Z", 100)]) == {"gpu01": Rates()}
    assert book.see([host_with("2026-11-15T08:00:05Z", 600)])["gpu01"].read == 100.0
    assert book.see([host_with("2026-11-15T08:00:05Z", 600)])["gpu01"].read == 100.0
    assert book.see([host_with("2026-11-15T08:00:10Z", 50)])["gpu01"].read is None  # it began anew
    assert book.see([host_with("2026-11-15T08:00:15Z", 90, "sda")])["gpu01"].read is None


def scene(*nodes):
    return scene_of(nodes, {}, 0.0)


def shown(table):
    return {line.key: dict(zip((column.key for column in table.columns), (one.plain for one in line.cells), strict=True)) for line in table.lines}


def test_users_are_summed_over_gpus_and_what_is_not_known_is_said():
    held = [{"owner": "alice", "session": "otter", "share": 0.5, "profile": None}]
    first = a_gpu(0, utilisation=0.9, holders=held, processes=[a_process(1, "alice", utilisation=0.4, memory_bytes=GIB)])
    second = a_gpu(1, processes=[a_process(2, "alice", utilisation=None, memory_bytes=None, outside=True), a_process(3, "bob", active=False)])
    users = shown(user_table(scene(a_node("gpu01", [first]), a_node("gpu02", [second]))))
    assert users["alice"] | {"cpus": "", "hosts": ""} == {
        "user": "alice", "gpus": "2", "held": "0.50", "used": "≥ 0.40", "memory": "≥ 1 GiB", "idle": "0", "outside": "1",
        "processes": "2", "cpus": "", "hosts": "",
    }  # fmt: skip
    assert (users["bob"]["held"], users["bob"]["idle"]) == ("0.00", "1")


def test_a_process_alone_on_a_mig_instance_uses_what_the_instance_does():
    instance = an_instance("0_1_0", profile="2g.35gb", utilisation=0.7, processes=[a_process(1, "alice", utilisation=None)])
    users = shown(user_table(scene(a_node(gpus=[a_gpu(0, mig=True, instances=[instance])]))))
    assert users["alice"]["used"] == "0.20"  # 0.7 of 2/7


def test_sessions_are_told_apart_by_host_and_owner_and_processes_outside_are_none():
    held = [{"owner": "alice", "session": "otter", "share": 1, "profile": None}]
    gpus = [a_gpu(0, holders=held, free=False), a_gpu(1, processes=[a_process(5, "bob", outside=True, session=None)])]
    sessions = shown(session_table(scene(a_node(gpus=gpus))))
    assert list(sessions) == ["gpu01/alice/otter"]
    assert sessions["gpu01/alice/otter"]["state"] == "no process"
    assert sessions["gpu01/alice/otter"]["memory"] == "-"


def test_where_the_driver_hangs_a_holder_does_not_look_idle():
    held = [{"owner": "alice", "session": "otter", "share": 1, "profile": None}]
    gpu = a_gpu(holders=held, now={"free": None, "idle": False, "why": "its driver does not answer"})
    [session] = shown(session_table(scene(a_node(gpus=[gpu])))).values()
    assert (session["used"], session["utilisation"], session["state"]) == ("-", "-", "")


def test_a_gpu_is_a_bar_of_its_users_memory():
    [row] = gpu_rows([a_node(gpus=[a_gpu(memory_bytes=100, memory_used_bytes=70, processes=[a_process(1, "alice", memory_bytes=40), a_process(2, "bob", memory_bytes=20)])])])
    assert memory_bar(row, 10) == (("████", hue_of("alice")), ("██", hue_of("bob")), ("█", "soft"), ("░░░", "idle"))


@pytest.mark.parametrize("memory", [{"memory_used_bytes": None}, {"memory_bytes": None}, {"memory_used_bytes": 10**15}])
def test_a_bar_is_as_wide_as_asked_whatever_is_told(memory):
    [row] = gpu_rows([a_node(gpus=[a_gpu(**{"memory_used_bytes": 5, **memory})])])
    assert sum(len(text) for text, _ in memory_bar(row, 10)) == 10


def test_a_user_has_the_hue_that_the_pages_give():
    assert [hue_of(user) for user in ("alice", "bob", "김서연")] == [pages.hue_of(user) for user in ("alice", "bob", "김서연")]
    assert len(HUES) == pages.HUES


@pytest.mark.parametrize(("tokens", "dark"), [(DARK, True), (LIGHT, False)])
def test_every_text_colour_can_be_read(tokens, dark):
    words = ["ink", "soft", "accent", "run", "wait", "start", "bad", "sim", *(f"hue-{number}" for number in range(len(HUES)))]
    faint = [word for word in words if contrast(Color.parse(style_of(word, dark)), Color.parse(tokens["bg"])) < 4.5]
    assert faint == []


def contrast(one, other):
    light, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dim + 0.05)


def luminance(colour):
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_columns_stand_below_each_other_with_korean_letters_too():
    rows = grid([[cell("김서연"), cell("1")], [cell("bob"), cell("22")]], right=[False, True])
    assert ["".join(text for text, _ in row) for row in rows] == ["김서연   1", "bob     22"]
    assert cut("김서연님", 5) == "김서…"
    assert grid([]) == []
    assert Cell().plain == ""


def test_values_keep_their_unit_and_strangers_words_stay_in_line():
    assert of_total(None, 80 * GIB) == "-/80 GiB"
    assert of_total(int(31.2 * GIB), 80 * GIB) == "31.2/80 GiB"
    assert (rate(None), rate(0.0), rate(4.1 * 2**20), rate(369.4 * 2**20)) == ("-", "0 B/s", "4.1 MiB/s", "369 MiB/s")
    assert safe("a\x1b[2Jb\u202e") == "a\\x1b[2Jb\\u202e"


@pytest.mark.parametrize("view", TABLES)
def test_every_letter_that_sorts_is_in_its_title_and_means_one_thing(view):
    columns = [column for column in TABLES[view](scene(), History()).columns if column.letter]
    taken = {binding.key for binding in TopApp.BINDINGS}
    assert all(column.letter in column.title.casefold() for column in columns)
    assert len({column.letter for column in columns} - taken) == len(columns)
