"""What a session can reach: the world, and neither this host, its metadata address nor another session. Tried from inside, on real daemons."""
import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_scene import Scene, said, scene
from engine_waits import PATIENCE_S, read_to_end, started, stop_all, until_running

from builders import a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.workload import workload_id
from gpufairy.engines import docker_network
from gpufairy.engines.contract import Command
from gpufairy.engines.docker_spec import Network

pytestmark = pytest.mark.system
OUTSIDE, HOST_ON_IT, METADATA = "198.51.100.2", "198.51.100.1", "169.254.77.77"  # the last stands for 169.254.169.254: the rule is the same
PORT = 7461
SERVING = ("sh", "-c", f"while :; do echo reached | nc -l -p {PORT}; done")
SERVER = f"""
import socket, threading
def serve(family, address):
    listener = socket.create_server(address, family=family)
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        client.sendall(b"reached")
        client.close()
serve(socket.AF_INET, ("0.0.0.0", {PORT}))
"""


@pytest.fixture(scope="module", params=["docker", "podman"])
def here(request: pytest.FixtureRequest, docker_tools: Path) -> Iterator[Scene]:
    with scene(request.getfixturevalue(f"{request.param}_daemon"), docker_tools) as made:
        yield made


@pytest.fixture(scope="module")
def world() -> Iterator[None]:
    """Another machine on a wire of its own, which also has a metadata address; and a service of this host, on every address."""
    name = f"fairy-w{os.getpid() % 100_000}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    with contextlib.ExitStack() as undo:
        ip("netns", "add", name)
        undo.callback(ip, "netns", "delete", name)
        ip("link", "add", "fairy-wire", "type", "veth", "peer", "name", "eth0", "netns", name)
        undo.callback(subprocess.run, ["ip", "link", "delete", "fairy-wire"], capture_output=True, check=False)
        ip("addr", "add", f"{HOST_ON_IT}/24", "dev", "fairy-wire")
        ip("link", "set", "fairy-wire", "up")
        for words in (("addr", "add", f"{OUTSIDE}/24", "dev", "eth0"), ("addr", "add", f"{METADATA}/32", "dev", "lo"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            ip("-n", name, *words)
        ip("-n", name, "route", "add", "default", "via", HOST_ON_IT)
        ip("route", "add", f"{METADATA}/32", "via", OUTSIDE)
        for prefix in (["ip", "netns", "exec", name], []):
            server = undo.enter_context(subprocess.Popen([*prefix, "python3", "-c", SERVER], stdout=subprocess.PIPE))
            undo.callback(server.kill)
            assert server.stdout.readline() == b"ready\n"
        yield


def nft(*words: str) -> None:
    subprocess.run(["nft", *words], check=True, stdout=subprocess.DEVNULL)


def reach(*addresses: str) -> str:
    return "; ".join(f"echo {address} $(nc -w 2 {address} {PORT} < /dev/null 2>/dev/null || echo cannot)" for address in addresses)


def gateway(here: Scene) -> str:
    return here.daemon.ask("GET", f"/networks/fairy-{here.server_id}")["IPAM"]["Config"][0]["Gateway"]


async def test_a_session_reaches_the_world_and_nothing_of_this_host(here: Scene, world: None):
    async with started(here.engine()) as engine:
        text = await said(engine, a_session("sh", "-c", reach(OUTSIDE, HOST_ON_IT, gateway(here), METADATA)))
    assert text.splitlines() == [f"{OUTSIDE} reached", f"{HOST_ON_IT} cannot", f"{gateway(here)} cannot", f"{METADATA} cannot"]


async def test_without_the_firewall_all_of_that_could_be_reached(here: Scene, world: None, docker_tools: Path):
    """So the test above tests something."""
    with scene(here.daemon, docker_tools) as other:
        async with started(other.engine(network=Network.UNGUARDED)) as engine:
            text = await said(engine, a_session("sh", "-c", reach(OUTSIDE, HOST_ON_IT, gateway(other), METADATA)))
            assert "services" in engine.isolation
    assert text.count("reached") == 4


@pytest.mark.parametrize("owners", [("student1", "student2"), ("student1", "student1")])
async def test_no_session_reaches_another(here: Scene, owners: tuple[str, str]):
    async with started(here.engine()) as engine:
        one, other = (a_session(owner=owner) for owner in owners)
        for session in (one, other):
            await engine.launch(session)
            await until_running(engine, session)
        serving = await engine.open(workload_id(other), Command(SERVING))
        address = next(iter(here.inspect(other)["NetworkSettings"]["Networks"].values()))["IPAddress"]
        assert address
        for session, result in ((other, b"reached\n"), (one, b"")):
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    asking = await engine.open(workload_id(session), Command(("nc", "-w", "1", address, str(PORT))))
                    found = await read_to_end(asking.stdout)
                    await asking.close()
                    if found == result:
                        break
        await serving.close()
        await stop_all(engine)


async def test_nobody_on_the_host_or_outside_opens_a_connection_into_a_session(here: Scene):
    async with started(here.engine()) as engine:
        session = a_session(*SERVING)
        await engine.launch(session)
        await until_running(engine, session)
        address = next(iter(here.inspect(session)["NetworkSettings"]["Networks"].values()))["IPAddress"]
        with pytest.raises(OSError):  # noqa: PT011 - refused or out of time, as the kernel likes
            async with asyncio.timeout(1):
                await asyncio.open_connection(address, PORT)
        with await engine.connect(workload_id(session), PORT) as inside:
            inside.settimeout(PATIENCE_S)
            assert await asyncio.to_thread(inside.recv, 100) == b"reached\n"
        await stop_all(engine)


async def test_no_network_is_none_at_all(here: Scene, world: None):
    async with started(here.engine(network=Network.NONE)) as engine:
        text = await said(engine, a_session("sh", "-c", f"{reach(OUTSIDE)}; ls /sys/class/net"))
    assert f"{OUTSIDE} cannot" in text
    assert "eth0" not in text


async def test_there_is_no_ipv6_to_go_around_by(here: Scene):
    async with started(here.engine()) as engine:
        assert "eth0" not in await said(engine, a_session("cat", "/proc/net/if_inet6"))


async def test_a_firewall_that_was_flushed_is_put_back(here: Scene):
    async with started(here.engine()) as engine:
        for family in ("inet", "bridge"):
            nft("delete", "table", family, f"gpufairy_{here.server_id}")
        await engine._network.mend()
        for family in ("inet", "bridge"):
            nft("list", "table", family, f"gpufairy_{here.server_id}")


async def test_two_servers_on_one_host_leave_each_others_sessions_alone(here: Scene, docker_tools: Path, world: None):
    with scene(here.daemon, docker_tools) as other:
        async with started(here.engine()) as mine, started(other.engine()) as theirs:
            session, theirs_too = a_session(), a_session("sh", "-c", reach(OUTSIDE, HOST_ON_IT))
            await mine.launch(session)
            await until_running(mine, session)
            assert f"{OUTSIDE} reached" in await said(theirs, theirs_too)
            assert session.id not in [workload.id.session_id for workload in await theirs.list_mine()]
            await stop_all(theirs)
            assert (await until_running(mine, session)).alive
            await stop_all(mine)


async def test_without_nft_the_engine_does_not_start_unguarded_by_itself(here: Scene, docker_tools: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docker_network.shutil, "which", lambda _: None)
    with scene(here.daemon, docker_tools) as other, pytest.raises(EngineRefused) as refused:
        await other.engine().start(lambda: None)
    assert "unguarded" in refused.value.next_step


def test_the_rules_are_taken_by_nft_as_they_are():
    rules = docker_network.ruleset("gpufairy_check", "fairy-check", "10.0.0.1")
    by_address = docker_network.between_sessions("gpufairy_check", "ether type ip ip saddr 10.0.0.0/24 ip daddr 10.0.0.0/24")
    done = subprocess.run(["nft", "-c", "-f", "-"], input=(rules + by_address).encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


