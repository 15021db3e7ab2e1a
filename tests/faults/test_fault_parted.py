"""A host parted from its server: for a short while, for longer, one way only, with half of all packets lost. In a network namespace of the test's own."""
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from bench.server import LiveServer
from collector_scene import Collector
from lengths import length_s

from daemons import needs
from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHORT_S = length_s(short=6, full=10)
LONG_S = length_s(short=12, full=300)
NOTICED_S = 40
MEAN_OVER_S = 25
HALF = "numgen random mod 2 == 0"
MARK = f"{os.getpid() % 10_000}"
SPACE, OUR_END, THEIR_END = f"fairy-ns-{MARK}", f"fv{MARK}a", f"fv{MARK}b"
NET = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
SETTINGS = "[node]\nname = 'box'\ncpus = 4\n[server]\nlisten = '{address}'\n"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def nft(rule: str) -> None:
    subprocess.run(["ip", "netns", "exec", SPACE, "nft", rule], check=True, capture_output=True)


class Wire:
    """Between the server and the host. What is dropped is dropped on the host's side, without a word."""

    def drop(self, *, going_in: str = "", going_out: str = "") -> None:
        """Each a condition of nft's, or `all`."""
        self.heal()
        nft("add table inet parted")
        for hook, condition in (("input", going_in), ("output", going_out)):
            if condition:
                nft(f"add chain inet parted {hook} {{ type filter hook {hook} priority 0; }}")
                nft(f"add rule inet parted {hook} {'iifname' if hook == 'input' else 'oifname'} != lo {condition.removeprefix('all')} drop")

    def heal(self) -> None:
        subprocess.run(["ip", "netns", "exec", SPACE, "nft", "delete table inet parted"], check=False, capture_output=True)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    needs("ip", "nft", package="iproute2 nftables")
    subprocess.run(["ip", "netns", "delete", SPACE], check=False, capture_output=True)
    ip("netns", "add", SPACE)
    try:
        ip("link", "add", OUR_END, "type", "veth", "peer", "name", THEIR_END, "netns", SPACE)
        ip("address", "add", f"{NET}.1/24", "dev", OUR_END)
        ip("link", "set", OUR_END, "up")
        for words in (("address", "add", f"{NET}.2/24", "dev", THEIR_END), ("link", "set", THEIR_END, "up"), ("link", "set", "lo", "up")):
            ip("-n", SPACE, *words)
        yield Wire()
    finally:
        ip("netns", "delete", SPACE)


class Host(Collector):
    @property
    def command(self) -> list[str]:
        return ["ip", "netns", "exec", SPACE, *super().command]


@pytest.fixture(scope="module")
def here(tmp_path_factory, wire):
    """A server, a session on its own machine, and a host that it watches over the wire."""
    driver = FakeNvml(tmp_path_factory.mktemp("driver"))
    driver.write(FakeMachine((FakeGpu(uuid="GPU-far-0", used_mib=1100, utilisation=50),)))
    settings = SETTINGS.format(address=f"{NET}.1")
    with LiveServer(tmp_path_factory.mktemp("fairy"), settings) as server:
        client = server.client()
        client.submit({"name": "here", "gpus": "0.5", "command": ["sleep", "3600"]})
        wait_for_state(client, "here", "RUNNING")
        with Host(tmp_path_factory.mktemp("far"), "agent", "--server", server.url, "--name", "far", "--every", "0.5s", fake=driver) as host:
            until(lambda: [agent for agent in client.agents() if agent["state"] == "waiting"], f"it to ask: {host.log}", 60)
            assert server.fairy("node", "accept", "--all", "--yes").returncode == 0
            until(lambda: state(client) == "watched", "it to be watched", 30)
            yield client, host


def state(client) -> str:
    return next((str(node["state"]) for node in client.nodes() if node["name"] == "far"), "unknown")


def whole_since(client, began: datetime) -> bool:
    """What the host saw meanwhile is all there. A report that nobody answers is waited for, ten seconds, and its readings are one mean then."""
    found = client.readings("gpu", "GPU-far-0", since=began.isoformat(), step="raw")
    times = [datetime.fromisoformat(moment) for moment in found["times"]]
    return len(times) > 1 and max((after - before).total_seconds() for before, after in pairwise(times)) < MEAN_OVER_S


def test_a_short_parting_is_nobodys_affair(here, wire):
    client, host = here
    began = datetime.now(UTC)
    wire.drop(going_in="all", going_out="all")
    time.sleep(SHORT_S)
    assert state(client) == "watched", "told as dead after seconds"
    wire.heal()
    until(lambda: whole_since(client, began), f"all to arrive: {host.log[-1500:]}", 60)
    assert client.session("here")["state"] == "RUNNING"


@pytest.mark.parametrize("way", [{"going_in": "all", "going_out": "all"}, {"going_in": "all"}, {"going_out": "all"}], ids=["both ways", "only its words arrive", "only our words arrive"])
def test_a_long_parting_is_told_and_heals_with_all_that_was_seen_meanwhile(here, wire, way):
    client, host = here
    began = datetime.now(UTC)
    wire.drop(**way)
    silent = until(lambda: state(client) != "watched" and state(client), "it to be noticed", NOTICED_S)
    assert silent in ("silent", "down", "dead"), silent
    assert client.session("here")["state"] == "RUNNING", "the others are not touched"
    wire.heal()
    until(lambda: state(client) == "watched", f"it to be back: {host.log[-1500:]}", 60)
    until(lambda: whole_since(client, began), f"all to arrive: {host.log[-1500:]}", 90)


def test_half_of_all_packets_lost_costs_time_and_no_reading(here, wire):
    client, host = here
    began = datetime.now(UTC)
    wire.drop(going_in=HALF, going_out=HALF)
    time.sleep(LONG_S)
    wire.heal()
    until(lambda: state(client) == "watched", f"it to be back: {host.log[-1500:]}", 60)
    until(lambda: whole_since(client, began), f"all to arrive: {host.log[-1500:]}", 90)
    assert client.session("here")["state"] == "RUNNING"
