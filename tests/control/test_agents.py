"""Which reports are believed: signed by an accepted key, whole, new, and of one's own host alone."""
import base64
from dataclasses import replace
from pathlib import Path

import pytest
from house_scene import a_house

from builders import NOW
from gpufairy.control.agents import EPOCH_GOOD_S, MOST_OF_ONE_ADDRESS, MOST_WAITING, Agents, Stamp
from gpufairy.control.clock import HeldClock
from gpufairy.control.watch import SILENT_AFTER_S, Watch
from gpufairy.core.agent import fingerprint
from gpufairy.core.errors import Conflict, NoSuchThing, NotAllowed
from gpufairy.node.identity import Identity

KEY = Identity(b"k" * 32)
KEY_BYTES = b"k" * 32
BODY = b'{"samples": []}'


class Host:
    """An agent, as far as the server sees it."""

    def __init__(self, agents: Agents, name: str = "gpu07", identity: Identity = KEY) -> None:
        self.agents, self.name, self.identity = agents, name, identity

    @property
    def public(self) -> bytes:
        return base64.b64decode(self.identity.public)

    def hello(self) -> str | None:
        return self.agents.hello(self.name, self.public, "10.0.0.7")

    def stamp(self, epoch: str, sequence: int, body: bytes = BODY) -> Stamp:
        return Stamp(epoch, sequence, base64.b64decode(self.identity.signature(self.name, epoch, sequence, body)))

    def report(self, epoch: str, sequence: int, body: bytes = BODY) -> None:
        self.agents.check(self.name, self.stamp(epoch, sequence, body), body)


async def accepted(agents: Agents) -> tuple[Host, str]:
    host = Host(agents)
    host.hello()
    await agents.accept("gpu07", None, "ann")
    epoch = host.hello()
    assert epoch is not None
    return host, epoch


async def test_an_unknown_agent_is_given_nothing_until_an_admin_accepts_its_key(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host = Host(scene.house.agents)
        assert host.hello() is None
        assert [(asker.name, asker.address, asker.replaces) for asker in scene.house.agents.waiting()] == [("gpu07", "10.0.0.7", False)]
        with pytest.raises(NotAllowed):
            host.report("1.0.abc", 1)
        agent = await scene.house.agents.accept("gpu07", fingerprint(host.public), "ann")
        assert (agent.accepted_by, agent.key) == ("ann", host.public)
        assert host.hello() is not None


async def test_an_accepted_agent_is_known_after_a_restart_and_must_begin_anew(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host, epoch = await accepted(scene.house.agents)
        host.report(epoch, 1)
    async with a_house(tmp_path) as scene:
        host = Host(scene.house.agents)
        with pytest.raises(Conflict, match="begin anew"):
            host.report(epoch, 2)
        again = host.hello()
        assert again is not None
        host.report(again, 1)


async def test_a_report_counts_once(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host, epoch = await accepted(scene.house.agents)
        host.report(epoch, 1)
        host.report(epoch, 5)
        for sequence in (5, 4, 1):
            with pytest.raises(NotAllowed, match="not newer"):
                host.report(epoch, sequence)


async def test_an_altered_report_or_one_of_another_host_or_key_is_refused(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        agents = scene.house.agents
        host, epoch = await accepted(agents)
        stamp = host.stamp(epoch, 1)
        foreign = Host(agents, identity=Identity(b"x" * 32)).stamp(epoch, 1)
        other_host = Host(agents, "gpu08").stamp(epoch, 1)
        for name, sent, body in (
            ("gpu07", stamp, BODY + b" "), ("gpu08", stamp, BODY), ("gpu07", replace(stamp, sequence=2), BODY),
            ("gpu07", foreign, BODY), ("gpu07", other_host, BODY), ("gpu07", replace(stamp, signature=b""), BODY),
            ("gpu07", replace(stamp, epoch=epoch + "0"), BODY),
        ):  # fmt: skip
            with pytest.raises(NotAllowed):
                agents.check(name, sent, body)
        host.report(epoch, 1)


async def test_an_epoch_of_before_cannot_be_taken_up_again(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host, first = await accepted(scene.house.agents)
        host.report(first, 1)
        second = host.hello()
        assert second is not None
        host.report(second, 1)
        with pytest.raises(Conflict):
            host.report(first, 2)


async def test_an_epoch_that_was_never_used_goes_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with a_house(tmp_path) as scene:
        host, epoch = await accepted(scene.house.agents)
        later_s = float(epoch.rpartition(".")[0]) + EPOCH_GOOD_S + 1
        monkeypatch.setattr("gpufairy.control.agents.boot_s", lambda: later_s)
        with pytest.raises(Conflict):
            host.report(epoch, 1)


async def test_a_made_up_epoch_is_refused(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host, _ = await accepted(scene.house.agents)
        for epoch in ("", "x", "1.0.abc", "-1.0.abc", "1e400.0.abc", "9" * 100 + ".0.abc"):
            with pytest.raises(Conflict):
                host.report(epoch, 1)


async def test_another_key_under_a_known_name_waits_and_the_old_one_goes_on(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        agents = scene.house.agents
        host, epoch = await accepted(agents)
        stranger = Host(agents, identity=Identity(b"x" * 32))
        assert stranger.hello() is None
        assert agents.waiting()[0].replaces
        host.report(epoch, 1)
        with pytest.raises(Conflict, match="has the key"):
            await agents.accept("gpu07", fingerprint(host.public), "ann")
        await agents.accept("gpu07", fingerprint(stranger.public), "ann")
        with pytest.raises(NotAllowed):
            host.report(epoch, 2)


async def test_a_host_that_is_forgotten_may_not_report(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        host, epoch = await accepted(scene.house.agents)
        await scene.house.agents.remove("gpu07")
        with pytest.raises(NotAllowed):
            host.report(epoch, 1)
        with pytest.raises(NoSuchThing):
            await scene.house.agents.remove("gpu07")


async def test_the_servers_own_host_has_no_agent(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        with pytest.raises(Conflict, match="own host"):
            Host(scene.house.agents, "here").hello()


async def test_strangers_who_ask_fill_no_memory(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        agents = scene.house.agents
        for number in range(MOST_WAITING + 50):
            agents.hello(f"h{number}", KEY_BYTES, f"10.0.0.{number}")
        assert len(agents.waiting()) == MOST_WAITING
        assert Host(agents, "h0").hello() is None
        assert "h0" in {asker.name for asker in agents.waiting()}


async def test_one_address_crowds_out_nobody_but_itself(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        agents = scene.house.agents
        agents.hello("gpu01", KEY_BYTES, "10.0.0.1")
        for number in range(1000):
            agents.hello(f"a{number}", KEY_BYTES, "10.6.6.6")
        names = {asker.name for asker in agents.waiting()}
        assert names == {"gpu01", *(f"a{number}" for number in range(1000 - MOST_OF_ONE_ADDRESS, 1000))}
        for address in range(10):
            for number in range(MOST_OF_ONE_ADDRESS):
                agents.hello(f"b{address}-{number}", KEY_BYTES, f"10.6.7.{address}")
        assert len(agents.waiting()) == MOST_WAITING
        assert "gpu01" in {asker.name for asker in agents.waiting()}


async def test_a_host_that_was_let_in_long_after_the_start_is_awaited_before_it_is_called_silent():
    steady = [100.0]
    watch = Watch(HeldClock(NOW), lambda: ["gpu07"], lambda: steady[0])
    steady[0] += 3600
    watch.await_first("gpu07")
    assert not watch.hosts()[0].silent
    steady[0] += SILENT_AFTER_S + 1
    assert watch.hosts()[0].silent


async def test_a_host_falls_silent_on_the_clock_that_nobody_sets_and_one_not_heard_yet_is_awaited_first(tmp_path: Path):
    steady = [100.0]
    watch = Watch(HeldClock(NOW), lambda: ["gpu07"], lambda: steady[0])
    assert [(seen.silent, seen.sample) for seen in watch.hosts()] == [(False, None)]
    steady[0] += SILENT_AFTER_S + 1
    assert watch.hosts()[0].silent
