"""The cluster page: what it answers, whom it shows what, its filters, hosts that are dead, drained or only watched."""
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import ANN, a_house
from session_browser import a_browser

from builders import NOW, a_gpu_seat, a_node, a_seat, a_session
from gpufairy.core.booking_choice import BookingAsk
from gpufairy.core.host_reading import HostReading
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading
from gpufairy.core.series import Kind, Subject, point
from gpufairy.core.share import PARTS
from gpufairy.core.uptime import UptimeRecord
from gpufairy.web.cluster_filter import Filter, filter_of
from gpufairy.web.cluster_page import cluster_page
from gpufairy.web.lately import Lately


def plain(words):
    return words.replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


def page_of(scene, **chosen):
    return cluster_page(scene.house, ANN.name, Filter(**chosen), used_today=None, records={})


def hold(scene, owner, gpu, parts=PARTS, name="otter"):
    seat = a_seat("here", a_gpu_seat(gpu, parts))
    scene.house.book.put(a_session("work", owner=owner, name=name, phase=Phase.RUNNING, seat=seat, placed_at=NOW))


def watched_sample(name, at):
    device = GpuDevice("GPU-w", "0", 0, "H200", 141 * 2**30)
    return NodeSample(name, at, 5.0, HostReading(at, up_s=41 * 86400.0), (device,), (GpuReading("GPU-w", at, 0.0, 0),))


async def test_the_first_line_says_what_is_free_and_the_second_what_of_it_is_whole(scene):
    hold(scene, "bob", 0, PARTS // 2)
    seen = page_of(scene)
    assert (seen.answer, plain(seen.next_step)) == ("1.5 of 2 GPUs are free now.", "1 GPU is wholly free.")
    hold(scene, "bob", 1, name="other")
    assert "the largest part is 0.5 GPU with 20 GiB" in plain(page_of(scene).next_step)


async def test_nothing_free_says_what_to_do(scene):
    hold(scene, "bob", 0)
    hold(scene, "bob", 1, name="other")
    seen = page_of(scene)
    assert seen.answer == "No GPU is free now."
    assert "Ask now, and yours waits its turn" in seen.next_step


async def test_filters_show_what_is_asked_for_and_say_what_they_hide(scene):
    hold(scene, "ann", 0, name="mine")
    (here,) = page_of(scene, mine=True).hosts
    assert ([bar.index for bar in here.bars], here.hidden) == ([0], 1)
    (here,) = page_of(scene, free=True).hosts
    assert [bar.index for bar in here.bars] == [1]
    for nothing in ({"kind": "H200"}, {"host": "elsewhere"}, {"state": "drained"}, {"pool": "class"}):
        seen = page_of(scene, **nothing)
        assert (seen.hosts, seen.hidden_hosts) == ((), 1)


async def test_a_filter_is_in_the_address_and_comes_back_from_it():
    chosen = Filter(free=True, kind="A100-40GB", host="gpu 1&x")
    assert chosen.query == "?free=1&kind=A100-40GB&host=gpu+1%26x"
    assert filter_of({"free": "1", "kind": "A100-40GB", "host": "gpu 1&x"}) == chosen
    assert filter_of({"free": "yes", "host": "x" * 1000}).host == "x" * 100
    assert Filter(free=True).with_free() == "/cluster"


async def test_a_drained_host_says_why_and_its_gpus_are_not_free(scene):
    await scene.house.store.nodes.set_drained("here", "fan is being replaced")
    await scene.house.look_at_nodes()
    seen = page_of(scene)
    assert seen.answer == "No GPU is free now."
    assert seen.hosts[0].trouble == "Taken out of use: fan is being replaced. 0 sessions go on there; nothing new starts."
    assert page_of(scene, free=True).hosts == ()


async def test_a_silent_engine_is_told_with_what_goes_on_there(scene):
    hold(scene, "bob", 0)
    scene.house.silent_since = NOW
    await scene.house.look_at_nodes()
    (here,) = page_of(scene).hosts
    assert here.silent
    assert "1 session goes on there, as far as we know; nothing new starts." in here.trouble


async def test_a_watched_host_says_that_it_is_only_watched_and_a_dead_one_since_when_and_how_long_it_was_there(scene, monkeypatch):
    house, subject = scene.house, Subject(Kind.NODE, "box", "box")
    house.watch.take(watched_sample("box", NOW), own=True)
    box = page_of(scene).hosts[1]
    assert (box.note, plain(box.up), plain(box.bars[0].free)) == ("only watched: no sessions start here", "up 41 d", "free")
    at = NOW - timedelta(hours=2)
    await house.store.history.append("box", at, [point(subject, cpu=0.5)], seconds=5.0, arrived_at=at)
    await house.store.history.roll_up(NOW, timedelta())
    monkeypatch.setattr(house.watch, "_steady_s", lambda: 1e9)
    records = await Lately(house).records(["box", "never-heard-of"])
    assert records == {"box": "reported in 1 of 3 h"}
    box = cluster_page(house, "ann", Filter(), used_today=None, records=records).hosts[1]
    assert (box.silent, box.up, box.bars) == (True, "reported in 1 of 3 h", ())
    assert plain(box.trouble).startswith("No report for 0 s, since ")


async def test_a_booking_of_the_next_day_is_told_on_its_gpus(scene):
    ask = BookingAsk("CS231n", "ann", ("user:ann",), 1, NOW + timedelta(hours=2), NOW + timedelta(hours=3), by_admin=True)
    await scene.house.bookings.make(ask, scene.house.nodes, [])
    notes = [bar.notes for bar in page_of(scene).hosts[0].bars]
    assert sorted(map(len, notes)) == [0, 1]
    assert max(notes)[0].startswith("booked from ")
    assert max(notes)[0].endswith(": CS231n")


async def test_an_open_page_is_sent_the_hosts_it_shows_and_of_the_others_that_they_are_there(tmp_path):
    nodes = replace(a_node("here"), name="<b>host</b>")
    async with a_house(tmp_path, node=nodes) as scene:
        browser = await a_browser(scene)
        whole = await browser.get("/cluster")
        assert (whole.status, "<b>host" in whole.body.decode()) == (200, False)
        assert whole.body.count(b'class="gpu"') == 2
        shown = await browser.get("/cluster", **{"hx-request": "true", "x-fairy-shown": "%3Cb%3Ehost%3C%2Fb%3E"})
        assert (shown.body.count(b'class="gpu"'), shown.body.count(b"data-same")) == (2, 0)
        hidden = await browser.get("/cluster", **{"hx-request": "true", "x-fairy-shown": "another"})
        assert (hidden.body.count(b'class="gpu"'), hidden.body.count(b"data-same")) == (0, 1)
        assert b"<!doctype" not in hidden.body


async def test_a_lab_without_a_gpu_is_told_what_to_do(tmp_path):
    async with a_house(tmp_path, gpus=0, node=a_node(gpus=0)) as scene:
        seen = page_of(scene)
    assert (seen.answer, seen.next_step) == ("There is no GPU here.", "Sessions run on CPUs all the same: ask for 0 GPUs.")


async def test_what_was_used_today_is_not_known_where_nothing_was_held(scene):
    assert await Lately(scene.house).used_since(NOW - timedelta(hours=8)) is None


async def test_hosts_with_agents_tell_for_what_part_of_a_month_they_were_there(scene):
    async def uptime():
        return [UptimeRecord("gpu07", NOW - timedelta(days=30), 0.99876, ())]

    assert {node: plain(words) for node, words in (await Lately(scene.house, uptime).there()).items()} == {"gpu07": "there 99.88 % of 30 d"}
    assert await Lately(scene.house).there() == {}
