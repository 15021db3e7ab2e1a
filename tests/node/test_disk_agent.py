"""An agent's walks through its host's folders: which, when, whose, what is kept for the server, and what a stuck disk costs."""
import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from disk_scene import put

from gpufairy.core.disk import DiskLook, Owned, Place, Unmeasured
from gpufairy.core.disk_due import WalkPace
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.engines import build_native
from gpufairy.node.disk_places import HostFolders, host_folders, kind_at
from gpufairy.node.disk_untold import Untold, report_of
from gpufairy.node.disk_walk import DiskWalker
from gpufairy.node.disk_watch import SETTLING, SPREAD_FIRST, TRY_AGAIN_S, DiskWatch
from gpufairy.node.reporter import Sent
from gpufairy.wire.disk_report import read_disk_report
from waits import until

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
MOUNTS = "/dev/sda1 / ext4 rw 0 0\nproc /proc proc rw 0 0\nfiles:/home /net/home nfs4 rw 0 0\n"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Walker:
    """Finds what the test says, and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.owners: tuple[Owned, ...] = (Owned("", 1000, 10, 2, 0),)
        self.broken = ""
        self.at_once = self.most_at_once = 0

    async def __call__(self, place: Place, now: datetime, *, full: bool) -> DiskLook | Unmeasured:
        self.asked.append((place.path, full))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.broken:
            return Unmeasured(place, now, f"{place.path}: {self.broken}", "Look at it.")
        return DiskLook(place, now, 0.1, full, 10, 2, 1, 0, 0, owners=self.owners)


class Server:
    """Takes what it is told, or not."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.answer = Sent.TAKEN

    async def __call__(self, part: str, body: bytes) -> Sent:
        assert part == "disk"
        self.bodies.append(body)
        return self.answer

    def told(self) -> list[dict]:
        return [json.loads(body) for body in self.bodies]


class Scene:
    def __init__(self, folder: Path, *named: str, root: str = "") -> None:
        self.folder, self.clock, self.walker, self.server = folder, Clock(), Walker(), Server()
        self.folders = HostFolders("gpu07", named, root)
        self.watch = self.started()

    def started(self) -> DiskWatch:
        names = {1000: "kim", 100_000: "kim", 1001: "uid 1001", 0: "root"}
        untold = Untold(self.folder / "untold")
        return DiskWatch(self.folders, self.walker, untold, names.__getitem__, self.folder / "walked.json", pace=WalkPace(), clock=self.clock)

    async def all_told(self) -> list[dict]:
        before = -1
        while before != len(self.server.bodies):
            before = len(self.server.bodies)
            await self.watch.tell(self.server)
        return self.server.told()

    def later(self, time: timedelta) -> None:
        self.clock.now += time


SETTLED = SETTLING + SPREAD_FIRST


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, "/data")


def test_home_is_taken_by_itself_where_it_lies_on_a_disk_of_the_host():
    assert kind_at("/home", MOUNTS) == "ext4"
    assert kind_at("/net/home/kim", MOUNTS) == "nfs4"
    assert kind_at("/net/home2", MOUNTS) == "ext4"
    assert kind_at("/home", f"{MOUNTS}files:/h /home nfs rw 0 0\n") == "nfs"
    assert kind_at("/my home", MOUNTS.replace("/net/home", "/my\\040home")) == "nfs4"
    assert kind_at("/home", "") == ""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "ceph", "lustre", "gpfs", "beegfs", "fuse.sshfs", "autofs", "9p", "tmpfs", "xfs", "btrfs", "zfs"])
def test_a_file_server_is_never_walked_through_by_many_hosts(tmp_path, kind):
    (tmp_path / "home").mkdir()
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/mounts").write_text(f"{MOUNTS}what /home {kind} rw 0 0\n")
    places = host_folders("gpu07", (), str(tmp_path)).places()
    assert [place.name for place in places] == (["gpu07:/home"] if kind in ("xfs", "btrfs", "zfs") else [])
    assert host_folders("gpu07", ("none",), str(tmp_path)).places() == ()


@pytest.mark.parametrize(("aim", "taken"), [("/data/home", True), ("data/home", True), ("/net/home", False), ("/nowhere", False), ("/home", False)])
def test_a_home_that_is_a_link_is_taken_where_it_leads_to_a_disk_of_the_host(tmp_path, aim, taken):
    (tmp_path / "data/home").mkdir(parents=True)
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/mounts").write_text(MOUNTS)
    (tmp_path / "home").symlink_to(aim)
    assert bool(host_folders("gpu07", (), str(tmp_path)).places()) is taken


def test_folders_that_are_named_are_taken_as_they_are_and_one_in_another_once():
    folders = host_folders("gpu07", ("/data/", "/data/sets", "/home", "/home"))
    assert [place.name for place in folders.places()] == ["gpu07:/data", "gpu07:/home"]


@pytest.mark.parametrize("wanted", [("data",), ("/a/../b",), ("none", "/data"), ("auto", "auto"), ("/a\nb",), ("",), tuple(f"/{number}" for number in range(101))])
def test_a_folder_that_means_nothing_is_refused_in_words(wanted):
    with pytest.raises(BadInput, match="--disk: ") as caught:
        host_folders("gpu07", wanted)
    assert caught.value.next_step


async def test_the_first_walk_waits_a_while_then_they_come_each_hour_and_once_a_night_in_full(scene):
    await scene.watch.look()
    assert scene.walker.asked == []
    scene.later(SETTLED)
    await scene.watch.look()
    await scene.watch.look()
    assert scene.walker.asked == [("/data", True)]
    for _ in range(26):
        scene.later(timedelta(hours=1))
        await scene.watch.look()
    assert len(scene.walker.asked) == 27
    assert [full for _, full in scene.walker.asked].count(True) == 2


async def test_a_restart_starts_no_walk_and_keeps_what_was_not_told(scene):
    scene.later(SETTLED)
    await scene.watch.look()
    scene.watch = scene.started()
    scene.later(SETTLED)
    await scene.watch.look()
    assert len(scene.walker.asked) == 1
    assert [one["look"]["bytes"] for one in await scene.all_told() if "look" in one] == [10]


async def test_a_wish_counts_once_however_often_it_is_told(scene):
    for _ in range(3):
        scene.watch.ask("2026-11-16T12:00:00Z")
        await scene.watch.look()
    assert len(scene.walker.asked) == 1
    scene.watch.ask("2026-11-16T12:05:00Z")
    await scene.watch.look()
    assert len(scene.walker.asked) == 2


async def test_never_two_walks_at_once(tmp_path):
    scene = Scene(tmp_path, "/a", "/b", "/c")
    task = asyncio.create_task(scene.watch.keep_walking())
    scene.watch.ask("now")
    for number in range(50):
        await asyncio.sleep(0)
        scene.watch.ask(str(number))
    await asyncio.to_thread(until, lambda: len(scene.walker.asked) >= 6, "two rounds")
    task.cancel()
    assert scene.walker.most_at_once == 1


async def test_outside_homes_the_hosts_account_says_whose_it_is_and_roots_is_nobodys(scene):
    scene.walker.owners = (Owned("", 1000, 5, 1, 0), Owned("", 100_000, 4, 1, 0), Owned("", 1001, 3, 1, 0), Owned("", 0, 2, 1, 0))
    scene.watch.ask("now")
    await scene.watch.look()
    told = next(one for one in await scene.all_told() if "look" in one)
    assert [one["top"] for one in told["look"]["owners"]] == ["kim", "kim", "", ""]
    look = read_disk_report(report_of(told, ["/data"], NOW), "gpu07", NOW, timedelta()).look
    assert look.place == Place("gpu07:/data", "/data", node="gpu07")


async def test_in_a_container_the_hosts_folder_is_told_by_its_path_on_the_host(tmp_path):
    scene = Scene(tmp_path, "/home", root="/host")
    scene.watch.ask("now")
    await scene.watch.look()
    scene.walker.broken = "input/output error"
    scene.watch.ask("again")
    await scene.watch.look()
    assert [path for path, _ in scene.walker.asked] == ["/host/home", "/host/home"]
    told = next(one["failed"] for one in await scene.all_told() if "failed" in one)
    assert (told["place"]["path"], told["why"]) == ("/home", "/home: input/output error")


async def test_of_each_place_only_the_newest_waits_for_a_server_that_is_away(scene):
    scene.server.answer = Sent.NOT_NOW
    for number in range(5):
        scene.watch.ask(str(number))
        scene.later(timedelta(minutes=1))
        await scene.watch.look()
        await scene.watch.tell(scene.server)
    scene.server.bodies, scene.server.answer = [], Sent.TAKEN
    scene.watch = scene.started()
    told = await scene.all_told()
    assert [one["look"]["at"] for one in told if "look" in one] == [(NOW + timedelta(minutes=5)).isoformat()]
    scene.server.bodies = []
    assert await scene.all_told() == []


async def test_what_a_server_cannot_take_now_is_tried_again_later_and_what_it_never_takes_is_not(scene, monkeypatch):
    scene.watch.ask("now")
    await scene.watch.look()
    scene.server.answer = Sent.NOT_NOW
    assert len(await scene.all_told()) == 1
    loop = asyncio.get_running_loop()
    later_s = loop.time() + TRY_AGAIN_S + 1
    monkeypatch.setattr(loop, "time", lambda: later_s)
    scene.server.answer = Sent.REFUSED
    assert len(await scene.all_told()) == 3
    assert len(await scene.all_told()) == 3


async def test_one_found_while_the_last_is_on_its_way_is_told_too(scene):
    scene.watch.ask("one")
    await scene.watch.look()

    async def slow(_part: str, body: bytes) -> Sent:
        scene.server.bodies.append(body)
        scene.later(timedelta(minutes=1))
        scene.watch.ask(str(len(scene.server.bodies)))
        await scene.watch.look()
        return Sent.TAKEN

    await scene.watch.tell(slow)
    await scene.watch.tell(slow)
    await scene.all_told()
    times = [one["look"]["at"] for one in scene.server.told() if "look" in one]
    assert times[-1] == scene.clock.now.isoformat()


async def test_a_server_hears_which_places_there_are_even_if_there_are_none(tmp_path):
    scene = Scene(tmp_path, "/data")
    scene.watch.ask("now")
    await scene.watch.look()
    scene.folders = HostFolders("gpu07", (), is_off=True)
    scene.watch = scene.started()
    assert [(one["places"], "look" in one) for one in await scene.all_told()] == [([], False)]


async def test_a_state_and_a_report_that_were_spoilt_cost_a_walk_in_full_and_nothing_else(scene, tmp_path):
    for text in ("", "[]", "{", '{"/data": 5}', '{"/data": ["x", null]}', '{"/data": [1e300, null]}'):
        (tmp_path / "walked.json").write_text(text)
        scene.watch = scene.started()
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"path": 5, "told": {}}')):
        (tmp_path / "untold" / f"{name}.json").write_text(text)
    scene.watch.ask("now")
    await scene.watch.look()
    assert scene.walker.asked == [("/data", True)]
    assert len(await scene.all_told()) == 2


async def test_a_folder_of_the_agents_own_that_cannot_be_written_ends_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    scene = Scene(tmp_path / "file", "/data")
    scene.watch.ask("now")
    await scene.watch.look()
    assert await scene.all_told() == []
    assert "cannot be kept for the server" in caplog.text


async def test_without_a_compiler_it_says_so_in_words(tmp_path):
    def no_program() -> Path:
        raise BadInput("the program that walks through folders cannot be built: there is no C compiler (cc) on this machine", "apt-get install gcc")

    scene = Scene(tmp_path, "/data")
    scene.walker = DiskWalker(no_program, tmp_path / "kept", WalkPace()).walk
    scene.watch = scene.started()
    scene.watch.ask("now")
    await scene.watch.look()
    told = next(one["failed"] for one in await scene.all_told() if "failed" in one)
    assert told["why"].startswith("the program that walks through folders cannot be built")
    assert told["next_step"] == "apt-get install gcc"


@pytest.mark.system
async def test_a_walk_that_hangs_costs_one_process_and_neither_a_second_walk_nor_the_end(tmp_path):
    program = put(tmp_path / "hangs")
    program.write_text("#!/bin/sh\necho $$ >> \"$2.pids\"\nexec sleep 600\n")
    program.chmod(0o755)
    scene = Scene(tmp_path, os.fspath(tmp_path))
    scene.walker = DiskWalker(lambda: program, tmp_path / "kept", WalkPace()).walk
    scene.watch = scene.started()
    task = asyncio.create_task(scene.watch.keep_walking())
    scene.watch.ask("now")
    (begun,) = await asyncio.to_thread(until, lambda: list(tmp_path.glob("kept/*.pids")), "the walk to begin")
    scene.watch.ask("again")
    await scene.watch.tell(scene.server)
    assert len(scene.server.bodies) == 1  # samples and reports go on meanwhile
    assert len(begun.read_text().split()) == 1
    task.cancel()
    await asyncio.wait([task], timeout=10)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_the_walker_is_built_where_the_agent_may_write_and_nowhere_else(tmp_path, monkeypatch):
    compiler = put(tmp_path / "bin/cc")
    compiler.write_text('#!/bin/sh\necho "$TMPDIR" > "$0.scratch"\nfor word; do [ "$last" = -o ] && touch "$word"; last=$word; done\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(build_native, "SHIPPED", tmp_path / "nothing")
    assert build_native.build_disk_walk(tmp_path / "tools").exists()
    assert (tmp_path / "bin/cc.scratch").read_text().startswith(f"{tmp_path}/tools/")


def test_without_a_compiler_the_walker_is_named_and_not_another_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build_native, "SHIPPED", tmp_path / "nothing")
    with pytest.raises(EngineRefused, match="the program that walks through folders cannot be built: there is no C compiler"):
        build_native.build_disk_walk(tmp_path / "tools")
