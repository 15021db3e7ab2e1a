"""The live screen by its keys: views, order, filter, details, and a server that goes away and comes back."""
from datetime import UTC, datetime, timedelta

import pytest
from canned import GIB, a_gpu, a_host, a_node, a_process, an_instance

pytestmark = pytest.mark.slow  # real processes, each with a start of its own


def two_hosts():
    busy = a_gpu(0, uuid="GPU-a0", utilisation=0.9, memory_used_bytes=60 * GIB, power_w=600.0, temperature_c=70.0, processes=[a_process(1, "bob", session="calm-lynx")])
    unknown = a_gpu(1, uuid="GPU-a1", free=None, now={"free": None, "idle": False, "why": "its driver does not answer"}, memory_bytes=None)
    free = a_gpu(0, uuid="GPU-b0", utilisation=0.0, memory_used_bytes=0, power_w=70.0, temperature_c=35.0)
    cut = a_gpu(1, uuid="GPU-b1", mig=True, instances=[an_instance("1_1_0", utilisation=0.4, processes=[a_process(7, "alice", utilisation=None)])])
    return [a_node("gpu10", [busy, unknown], host=a_host()), a_node("gpu2", [free, cut])]


async def test_every_gpu_of_every_host_is_on_one_line_with_instances_under_their_gpu(screen):
    async with screen(two_hosts()) as shown:
        assert shown.column("host") == ["gpu10", "gpu10", "gpu2", "gpu2", ""]
        assert [text.strip() for text in shown.column("gpu")] == ["0", "1", "0", "1", "└ 1_1_0"]
        assert shown.column("user") == ["bob", "not known", "free", "", "alice"]


async def test_what_is_not_known_is_a_dash_and_never_a_zero(screen):
    async with screen([a_node(gpus=[a_gpu(now={"free": None, "idle": False, "why": "its driver does not answer"}, memory_bytes=None)])]) as shown:
        [row] = shown.rows
        told = dict(zip((column.key for column in shown.app.table.shown_columns), row, strict=True))
        assert (told["utilisation"], told["temperature"], told["power"]) == ("-", "-", "-")
        assert told["memory"].strip() == "-"
        assert told["history"].strip() == ""
        assert told["what"] == "its driver does not answer"
        assert not any("0%" in line for line in shown.painted() if "gpu01" in line)


async def test_a_letter_sorts_by_its_column_and_the_same_letter_turns_it_round(screen):
    async with screen(two_hosts()) as shown:
        await shown.press("u")
        assert shown.column("utilisation")[:2] == ["90%", "-"]  # the cut GPU, by its instance, comes second
        await shown.press("u")
        assert shown.column("utilisation")[0] == "0%"
        assert shown.column("user")[-1] == "not known"  # what is not known is last, whichever way
        await shown.press("h")
        assert shown.column("host")[0] == "gpu2"  # before gpu10


async def test_a_click_on_a_title_sorts_too(screen):
    async with screen(two_hosts()) as shown:
        left = sum(column.width + 2 for column in shown.app.table.shown_columns[:3])
        await shown.pilot.click("#table-gpus", offset=(left + 4, 0))
        await shown.until(lambda: shown.app.orders["gpus"].column == "utilisation")
        assert any("UTIL▼" in line for line in shown.painted())


async def test_a_filter_narrows_as_it_is_typed_and_escape_drops_it(screen):
    async with screen(two_hosts()) as shown:
        await shown.press("slash", *"bob")
        await shown.until(lambda: shown.column("user") == ["bob"])
        await shown.press("enter", "u")  # keeps it, and the keys are the table's again
        assert shown.app.orders["gpus"].column == "utilisation"
        assert shown.column("user") == ["bob"]
        await shown.press("escape")
        await shown.until(lambda: len(shown.rows) == 5)


async def test_a_filter_that_nothing_matches_says_so(screen):
    async with screen(two_hosts()) as shown:
        await shown.press("slash", *"zzz")
        await shown.until(lambda: "Nothing matches 'zzz'" in shown.text("#empty"))


async def test_keys_and_tab_lead_through_the_views(screen):
    async with screen(two_hosts()) as shown:
        await shown.press("2")
        assert shown.column("user") == ["alice", "bob"]
        await shown.press("tab")
        assert shown.column("session") == ["calm-lynx", "brave-otter"]
        await shown.press("tab")
        assert shown.column("host") == ["gpu10", "gpu2"]
        assert shown.column("memory") == ["128/512 GiB", "-"]
        await shown.press("tab")
        assert shown.app.view == "gpus"


async def test_enter_tells_all_of_a_gpu_and_who_is_on_it(screen):
    process = a_process(4242, "alice", command_line="python train.py --lr 1e-3", container="fairy-otter", active=False, active_why="no work for 20 min")
    gpu = a_gpu(utilisation=0.0, throttled_by=["power cap"], ecc_uncorrected=3, processes=[process], idle=True, why="alice has 20 GiB on it, but computes nothing")
    async with screen([a_node(gpus=[gpu])]) as shown:
        await shown.press("enter")
        told = shown.text("#told")
        for words in ("4242", "alice", "brave-otter", "fairy-otter", "python train.py --lr 1e-3", "no work for 20 min"):
            assert words in told
        assert "alice has 20 GiB on it, but computes nothing" in told
        assert "slowed down by power cap" in told
        await shown.press("escape")
        assert not shown.app.query_one("#detail").display


async def test_details_follow_the_cursor_in_every_view(screen):
    async with screen(two_hosts()) as shown:
        await shown.press("enter", "down", "down")
        await shown.until(lambda: "GPU-b0" in shown.text("#told"))
        await shown.press("4")
        await shown.until(lambda: "2 cores" in shown.text("#told"))
        await shown.press("2", "down")
        await shown.until(lambda: "gpu10:0" in shown.text("#told"))
        await shown.press("3")
        await shown.until(lambda: "calm-lynx" in shown.text("#told"))


async def test_the_history_of_the_lines_in_sight_is_fetched_once(screen, server):
    now = datetime.now(UTC)
    times = [(now - timedelta(seconds=30 * number)).isoformat() for number in range(10)]
    means = [1.0, None] * 5
    server.answers["GET", "/readings"] = {"step_s": 30, "times": times, "columns": {"utilisation": {"unit": "ratio", "mean": means, "max": means}}}
    async with screen([a_node(gpus=[a_gpu(number) for number in range(200)])]) as shown:
        await shown.until(lambda: any("▇" in text for text in shown.column("history")[:5]))
        assert "▇ ▇" in shown.column("history")[0]  # what was not known is a gap
        asked = [call.query["name"] for call in server.calls("GET", "/readings")]
        await shown.until(lambda: len(server.calls("GET", "/nodes")) > 20)
        assert len(asked) == len(set(asked)) < 60
        assert server.calls("GET", "/readings")[0].query == {"kind": "gpu", "name": "GPU-0", "since": "10m"}


async def test_without_a_history_the_line_fills_from_what_is_seen(screen):
    async with screen([a_node(gpus=[a_gpu(utilisation=1.0)])]) as shown:
        await shown.until(lambda: shown.column("history")[0].endswith("▇"))
        assert shown.column("history")[0].strip() == "▇"


async def test_a_server_that_goes_away_is_told_in_words_over_greyed_lines_until_it_is_back(screen, server):
    async with screen(two_hosts()) as shown:
        server.drop_next = 10**9
        await shown.until(lambda: "no answer from the server" in shown.text("#banner"))
        assert "since" in shown.text("#banner")
        assert len(shown.rows) == 5
        assert shown.app.query_one("ContentSwitcher").has_class("old")
        server.drop_next = 0
        await shown.until(lambda: shown.text("#banner") == "")
        assert not shown.app.query_one("ContentSwitcher").has_class("old")


async def test_a_server_that_says_no_is_quoted(screen, server):
    async with screen(two_hosts()) as shown:
        server.answers["GET", "/nodes"] = (401, {"title": "Not signed in", "status": 401, "detail": "the token was revoked", "next": "Sign in."})
        await shown.until(lambda: "the token was revoked" in shown.text("#banner"))


async def test_hosts_that_say_nothing_are_told_of(screen):
    async with screen([a_node("gpu03", state="silent", why="no report since 11:58:02 UTC")]) as shown:
        assert "gpu03: no report since 11:58:02 UTC" in shown.text("#remarks")
        assert "No host has a GPU" in shown.text("#summary")


async def test_the_cursor_stays_with_its_line_when_others_pass_it(screen, server):
    def at(first, second):
        return [a_node(gpus=[a_gpu(0, uuid="GPU-x", utilisation=first), a_gpu(1, uuid="GPU-y", utilisation=second), a_gpu(2, uuid="GPU-z", utilisation=0.1)])]

    async with screen(at(0.9, 0.5)) as shown:
        await shown.press("u", "down")
        assert "GPU-y" in shown.app.table.chosen
        server.answers["GET", "/nodes"] = {"items": at(0.3, 0.8)}
        await shown.until(lambda: shown.column("utilisation") == ["80%", "30%", "10%"])
        assert "GPU-y" in shown.app.table.chosen


async def test_names_that_would_move_the_cursor_are_shown_as_text(screen):
    async with screen([a_node("gpu\x1b[2J", gpus=[a_gpu(processes=[a_process(1, "[red]eve\n", command="[/]\x07")])])]) as shown:
        await shown.press("enter")
        drawn = "\n".join(shown.painted())
        assert "\x1b[2J" not in drawn
        assert "\\x1b[2J" in drawn
        assert "[red]eve\\n" in drawn


async def test_a_narrow_screen_leaves_out_what_matters_least(screen):
    async with screen(two_hosts(), size=(80, 24)) as shown:
        keys = [column.key for column in shown.app.table.shown_columns]
        assert "user" in keys
        assert "memory" in keys
        assert "power" not in keys


async def test_a_click_on_a_tab_opens_its_view(screen):
    async with screen(two_hosts()) as shown:
        await shown.pilot.click("#hosts")
        await shown.until(lambda: shown.app.view == "hosts")
        assert shown.column("host") == ["gpu10", "gpu2"]


@pytest.mark.slow
async def test_a_thousand_gpus_are_filtered_and_shown_again(screen):
    nodes = [a_node(f"gpu{host:03}", [a_gpu(number, uuid=f"GPU-{host}-{number}") for number in range(8)]) for host in range(125)]
    async with screen(nodes, every_s=3600) as shown:
        assert shown.app.table.row_count == 1000
        await shown.press("slash", *"gpu007")
        await shown.until(lambda: shown.app.table.row_count == 8)
        await shown.press("escape")
        await shown.until(lambda: shown.app.table.row_count == 1000)
        assert not shown.app.table.show(shown.app.table.shown_columns, shown.app.table.lines, shown.app.orders["gpus"], dark=True)
