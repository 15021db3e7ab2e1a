"""What hosts report, kept with who held what, and shown to those who may see it."""
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from house_scene import Scene, a_house

from builders import NOW
from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.control import history as history_module
from gpufairy.control.history import Chronicle
from gpufairy.control.links import SignInLinks
from gpufairy.control.passes import make_pass
from gpufairy.core.believe import Heard
from gpufairy.core.errors import BadInput
from gpufairy.core.host_reading import DiskReading, HostReading
from gpufairy.core.node_sample import NodeSample, ProcessReading, SessionReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.people import Role
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.core.series import RAW, Kind
from gpufairy.core.session import Session
from gpufairy.core.usage import By
from gpufairy.store.history_arrival import Arrival

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
GPUS = ("GPU-simulated-0", "GPU-simulated-1")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with a_house(tmp_path) as made:
        await made.house.registry.ensure_user("ann")
        yield made


def a_sample(scene: Scene, session: Session | None = None, utilisation: float | None = 0.5, **fields: Any) -> NodeSample:
    now = scene.clock()
    devices = tuple(GpuDevice(uuid, str(index), index, "A100-40GB", 40 * 2**30) for index, uuid in enumerate(GPUS))
    readings = tuple(GpuReading(uuid, now, utilisation, 2**30) for uuid in GPUS)
    processes: tuple[ProcessReading, ...] = ()
    if session is not None:
        owner = Owner(session.owner, KnownBy.SESSION, session.id, session.name)
        on = GpuProcess(7, session.seat.gpus[0].uuid, 2**30, utilisation)
        processes = (ProcessReading(on, RunningProcess(7, 1, 1000, "python"), owner),)
    sample = NodeSample("here", now, 60.0, HostReading(now), devices, readings, processes)
    return replace(sample, **fields)


async def a_running_session(scene: Scene, **fields: Any) -> Session:
    session = await scene.submit(**fields)
    await scene.rest()
    return await scene.now(session)


async def minutes_of(scene: Scene, chronicle: Chronicle, session: Session, count: int, utilisation: float | None = 0.5) -> None:
    """A report a minute, each standing for the minute before it."""
    for _ in range(count):
        scene.clock.go_on(MINUTE)
        await chronicle.take(a_sample(scene, session, utilisation))


async def test_a_report_is_kept_with_what_was_held_then(scene: Scene):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    await minutes_of(scene, chronicle, session, 3)
    series = await chronicle.series(Kind.SESSION, session.id, NOW)
    assert series.step_s == RAW
    assert series.columns["gpus_held"].mean == [1.0, 1.0, 1.0]
    assert series.columns["gpus_used"].mean == [0.5, 0.5, 0.5]
    gpu = await chronicle.series(Kind.GPU, session.seat.gpus[0].uuid, NOW)
    assert gpu.columns["held"].mean == [1.0, 1.0, 1.0]


async def test_who_sat_down_since_the_last_look_is_not_written_down_as_holding_nothing(scene: Scene):
    chronicle = Chronicle(scene.house)
    scene.clock.go_on(MINUTE)
    await chronicle.take(a_sample(scene))
    session = await a_running_session(scene)
    scene.clock.go_on(timedelta(milliseconds=500))
    await chronicle.take(a_sample(scene, seconds=0.5, sessions=(SessionReading(session.id, 1.5, 2**30),)))
    assert (await chronicle.series(Kind.SESSION, session.id, NOW)).columns["gpus_held"].mean == [1.0]


async def test_a_report_that_comes_late_counts_for_those_who_held_the_gpu_at_its_time(scene: Scene):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    scene.clock.go_on(MINUTE)
    late = a_sample(scene, session)
    await scene.later(MINUTE)
    await scene.stop(session)
    await scene.later(HOUR)
    await chronicle.take(late)
    series = await chronicle.series(Kind.USER, "ann", NOW, NOW + HOUR, step=MINUTE)
    assert series.columns["gpus_held"].mean[:2] == [1.0, None]


async def test_what_comes_late_is_written_in_one_go_and_what_is_here_is_not_reckoned_again(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    samples = []
    for _ in range(20):
        scene.clock.go_on(MINUTE)
        samples.append(a_sample(scene, session))
    scene.clock.go_on(HOUR)
    written, reckoned = [], []
    append_all, points = scene.house.store.history.append_all, history_module.points_of

    async def counted(arrivals: Sequence[Arrival]) -> list[bool]:
        written.append(len(arrivals))
        return await append_all(arrivals)

    monkeypatch.setattr(scene.house.store.history, "append_all", counted)
    monkeypatch.setattr(history_module, "points_of", lambda *them: reckoned.append(them) or points(*them))
    for last in (15, 20, 20):
        await chronicle.take_all([Heard(sample, sample.at) for sample in samples[:last]])
    assert (written, len(reckoned)) == ([15, 5, 0], 20)
    [row] = (await chronicle.usage(By.USER, NOW)).rows
    assert (row.used_s, row.unknown_s) == (pytest.approx(600), pytest.approx(3600))


@pytest.mark.parametrize("late", [timedelta(0), HOUR])
async def test_a_sample_counts_once_however_often_it_is_delivered(scene: Scene, late: timedelta):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    scene.clock.go_on(MINUTE)
    sample = a_sample(scene, session)
    scene.clock.go_on(late)
    for _ in range(4):
        await chronicle.take(sample)
        scene.clock.go_on(6 * MINUTE)
        await chronicle.roll_up()
    assert [row.used_s for row in (await chronicle.usage(By.GPU, NOW)).rows] == [30.0, 30.0]


async def test_two_agents_on_one_host_count_as_one(scene: Scene):
    chronicle = Chronicle(scene.house)
    for _ in range(10):
        scene.clock.go_on(MINUTE)
        await chronicle.take(a_sample(scene))
        await chronicle.take(a_sample(scene, at=scene.clock() + SECOND))
    assert [row.used_s for row in (await chronicle.usage(By.GPU, NOW)).rows] == [300.0, 300.0]


async def test_rates_are_told_from_the_report_before_and_not_across_a_step_back(scene: Scene):
    chronicle = Chronicle(scene.house)
    for seconds, read_bytes in ((0, 0), (10, 10 * 2**20), (5, 2**20)):
        at = NOW + seconds * SECOND
        await chronicle.take(a_sample(scene, host=HostReading(at, disks=(DiskReading("sda", read_bytes, 0),)), at=at, seconds=5.0))
    scene.clock.go_on(MINUTE)
    series = await chronicle.series(Kind.NODE, "here", NOW - MINUTE, step=timedelta())
    assert series.columns["read_bytes_per_s"].mean == [None, None, 2**20]


async def test_used_and_held_are_told_apart_and_what_nobody_knows_is_neither(scene: Scene):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    await minutes_of(scene, chronicle, session, 30)
    await minutes_of(scene, chronicle, session, 15, utilisation=None)
    scene.clock.go_on(15 * MINUTE)  # nothing at all is reported
    for by, name in ((By.USER, "ann"), (By.SESSION, session.id), (By.GPU, session.seat.gpus[0].uuid), (By.NODE, "here")):
        report = await chronicle.usage(by, NOW)
        row = next(row for row in report.rows if row.name == name)
        used = 0.5 if by is By.NODE else 0.25  # the other GPU of the node worked too, for nobody
        assert (row.held_s / 3600, row.used_s / 3600, row.unknown_s / 3600) == (1.0, pytest.approx(used), pytest.approx(0.5))


async def test_usage_is_the_same_when_the_session_has_ended_and_all_is_rolled_up(scene: Scene):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    await minutes_of(scene, chronicle, session, 30)
    await scene.stop(session)
    await scene.rest()
    for _ in range(3):
        scene.clock.go_on(HOUR)
        await chronicle.roll_up()
    [row] = (await chronicle.usage(By.SESSION, NOW)).rows
    assert (row.held_s / 3600, row.used_s / 3600, row.unknown_s, row.owner) == (0.5, pytest.approx(0.25), pytest.approx(0), "ann")
    assert (await chronicle.usage(By.USER, NOW, owner="bob")).rows == []


async def test_a_session_without_gpus_and_without_processes_is_kept_too(scene: Scene):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene, gpus="0")
    scene.clock.go_on(MINUTE)
    await chronicle.take(a_sample(scene, sessions=(SessionReading(session.id, 1.5, 2**30),)))
    series = await chronicle.series(Kind.USER, "ann", NOW)
    assert (series.columns["cpus"].mean, series.columns["gpus_held"].mean) == ([1.5], [0.0])


async def test_a_stretch_that_cannot_be_shown_is_refused(scene: Scene):
    chronicle = Chronicle(scene.house)
    with pytest.raises(BadInput, match="not before"):
        await chronicle.series(Kind.GPU, "x", NOW + HOUR)
    with pytest.raises(BadInput, match="more than 50000 points"):
        await chronicle.series(Kind.GPU, "x", NOW - timedelta(days=365 * 20))


@pytest.fixture
async def app(scene: Scene) -> FastAPI:
    return make_app(Context(scene.house, SignInLinks(scene.house.clock), "http://server"))


async def token_of(scene: Scene, user: str) -> str:
    return (await scene.house.registry.create_token(user, "test", "full", None))[1]


async def ask(app: FastAPI, token: str, path: str, **query: str) -> tuple[int, Any]:
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": f"/api/v1{path}",
        "raw_path": f"/api/v1{path}".encode(), "query_string": urlencode(query).encode(), "root_path": "", "client": ("127.0.0.1", 1),
        "headers": [(b"authorization", f"Bearer {token}".encode())], "server": ("server", 80), "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return said[0]["status"], json.loads(b"".join(message.get("body", b"") for message in said[1:]))


async def test_readings_are_columns_beside_times_with_null_for_what_is_not_known(scene: Scene, app: FastAPI):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene)
    await minutes_of(scene, chronicle, session, 2)
    status, answer = await ask(app, await token_of(scene, "ann"), "/readings", kind="gpu", name=GPUS[0], since="5m", step="1m")
    assert (status, answer["kind"], answer["name"], answer["node"], answer["step_s"]) == (200, "gpu", GPUS[0], "here", 60)
    assert answer["times"][2:4] == ["2026-11-15T07:59:00.000Z", "2026-11-15T08:00:00.000Z"]
    assert answer["columns"]["utilisation"] == {"unit": "ratio", "mean": [None, None, None, 0.5, 0.5], "max": [None, None, None, 0.5, 0.5]}
    assert answer["columns"]["sm_active"] == {"unit": "ratio", "mean": [None] * 5}


async def test_from_inside_a_session_its_owner_sees_its_own_history(scene: Scene, app: FastAPI):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene, name="train")
    await minutes_of(scene, chronicle, session, 2)
    inside = make_pass(b"secret", session)
    status, answer = await ask(app, inside, "/sessions/train/readings", since="3m")
    assert (status, answer["kind"], answer["name"], answer["step_s"]) == (200, "session", "train", 0)
    assert answer["columns"]["gpus_used"]["mean"] == [0.5, 0.5]
    status, whole = await ask(app, inside, "/sessions/train/readings")
    assert (status, whole["columns"]["gpus_used"]["mean"]) == (200, [0.5, 0.5])
    status, usage = await ask(app, inside, "/usage", by="session", since="1h")
    assert [(row["name"], row["owner"], row["state"]) for row in usage["items"]] == [("train", "ann", "RUNNING")]


async def test_of_a_session_that_has_ended_its_own_time_is_shown(scene: Scene, app: FastAPI):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene, name="train")
    await minutes_of(scene, chronicle, session, 20)
    await scene.stop(session)
    await scene.rest()
    for _ in range(3):
        scene.clock.go_on(timedelta(days=1))
        await chronicle.roll_up()
    status, answer = await ask(app, await token_of(scene, "ann"), "/sessions/train/readings")
    assert (status, answer["step_s"], len(answer["times"])) == (200, 60, 20)
    assert answer["columns"]["gpus_used"]["mean"] == [0.5] * 20


async def test_others_see_gpus_and_nodes_but_neither_sessions_nor_users(scene: Scene, app: FastAPI):
    chronicle, session = Chronicle(scene.house), await a_running_session(scene, name="train")
    await minutes_of(scene, chronicle, session, 2)
    await scene.house.registry.ensure_user("bob")
    await scene.house.registry.add_user("root", Role.ADMIN, None)
    bob, root = await token_of(scene, "bob"), await token_of(scene, "root")
    asked = [("gpu", GPUS[0]), ("node", "here"), ("user", "ann"), ("session", session.id), ("session", "ann+train")]
    assert [(await ask(app, bob, "/readings", kind=kind, name=name))[0] for kind, name in asked] == [200, 200, 403, 404, 404]
    assert [(await ask(app, root, "/readings", kind=kind, name=name))[0] for kind, name in asked] == [200] * 5
    assert (await ask(app, bob, "/sessions/train/readings"))[0] == 404
    assert [row["name"] for row in (await ask(app, bob, "/usage", by="user"))[1]["items"]] == []
    assert [row["name"] for row in (await ask(app, root, "/usage", by="user"))[1]["items"]] == ["ann"]
    gpus = (await ask(app, bob, "/usage", by="gpu", since="1h"))[1]["items"]
    assert [(row["uuid"], row["index"], row["used_gpu_hours"]) for row in gpus] == [(GPUS[0], 0, 0.0167), (GPUS[1], 1, 0.0167)]


async def test_what_there_is_not_and_what_cannot_be_read_is_said(scene: Scene, app: FastAPI):
    token = await token_of(scene, "ann")
    cases = [
        ({"kind": "gpu", "name": "GPU-simulated-9"}, 404), ({"kind": "node", "name": "gpu02"}, 404), ({"kind": "gpu", "name": GPUS[0]}, 200),
        ({"kind": "cat", "name": "x"}, 400), ({"kind": "gpu"}, 400), ({"kind": "gpu", "name": "x", "since": "soon"}, 400),
        ({"kind": "gpu", "name": "x", "since": "0001-01-01"}, 400), ({"kind": "gpu", "name": "x", "since": "2026-13-99"}, 400),
        ({"kind": "gpu", "name": "x", "step": "-5"}, 400), ({"kind": "gpu", "name": "x" * 5000}, 400), ({"kind": "gpu", "name": "a\0b"}, 404),
        ({"kind": "gpu", "name": GPUS[0], "since": "30d", "step": "10s"}, 200), ({"kind": "user", "name": "ann"}, 200),
        ({"kind": "gpu", "name": GPUS[0], "since": "9999-12-31T23:59:59Z"}, 400),
    ]  # fmt: skip
    assert [(query, (await ask(app, token, "/readings", **query))[0]) for query, _ in cases] == cases
