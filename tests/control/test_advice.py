"""Advice from what hosts reported: to those whose sessions they are, at the door, and when a session is over."""
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from house_scene import ANN, Scene, a_house
from test_history import a_running_session, a_sample, ask

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.control.advise import adviser
from gpufairy.control.enter import Knock, enter
from gpufairy.control.history import Chronicle
from gpufairy.control.links import SignInLinks
from gpufairy.control.passes import make_pass
from gpufairy.control.session_summary import summary_of
from gpufairy.core.errors import StoreUnavailable
from gpufairy.core.insight import Code
from gpufairy.core.node_sample import SessionReading
from gpufairy.core.purpose import Purpose
from gpufairy.core.session import Session
from gpufairy.wire.submit import SubmitBody

STEP = timedelta(seconds=20)
GIB = 2**30


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with a_house(tmp_path) as made:
        await made.house.registry.ensure_user("ann")
        await made.house.registry.ensure_user("bob")
        yield made


async def works(scene: Scene, session: Session, minutes: float, gpu: float | None = 0.23, cpus: float | None = 0.98, memory: int = GIB) -> None:
    """Reports of so long."""
    chronicle = Chronicle(scene.house)
    for _ in range(int(minutes * 60 / STEP.total_seconds())):
        scene.clock.go_on(STEP)
        reading = SessionReading(session.id, None if cpus is None else cpus * session.seat.cpus_milli / 1000, memory)
        sample = replace(a_sample(scene, session, gpu), seconds=STEP.total_seconds(), sessions=(reading,))
        powered = tuple(replace(one, power_w=300.0) for one in sample.readings)
        await chronicle.take(replace(sample, readings=powered))


async def said(scene: Scene, owner: str | None = "ann") -> list[Code]:
    return [one.code for _, told in await adviser(scene.house, owner) for one in told]


async def test_a_session_that_starves_its_gpu_is_told_so_after_a_while_and_not_before(scene: Scene):
    session = await a_running_session(scene)
    await works(scene, session, 5)
    assert await said(scene) == []
    await works(scene, session, 25)
    assert await said(scene) == [Code.LOADER]


async def test_readings_that_are_missing_make_it_silent(scene: Scene):
    session = await a_running_session(scene)
    await works(scene, session, 30, cpus=None)
    assert await said(scene) == []


async def test_what_is_asked_again_at_once_is_not_worked_out_again(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    session, history = await a_running_session(scene), scene.house.store.history
    await works(scene, session, 20)
    reads, grids = [], history.grids

    async def counted(*them, **named):
        reads.append(them)
        return await grids(*them, **named)

    monkeypatch.setattr(history, "grids", counted)
    for _ in range(5):
        assert await said(scene) == [Code.LOADER]
    assert len(reads) == 3, "of sessions, nodes and GPUs, once"
    scene.clock.go_on(timedelta(minutes=2))
    await said(scene)
    assert len(reads) == 6


async def test_nobody_is_told_anything_where_that_is_off(scene: Scene):
    scene.house.insight.pace = None
    session = await a_running_session(scene)
    await works(scene, session, 30)
    assert await said(scene) == []


async def test_whoever_comes_in_is_greeted_with_it_and_comes_in_without_it_too(scene: Scene, monkeypatch: pytest.MonkeyPatch):
    session = await a_running_session(scene, command=None)
    await works(scene, session, 30)
    entry = await enter(scene.house, Knock(ANN, session.name, Purpose.SHELL), SubmitBody(gpus="0"), 0)
    assert "The data loader starves the GPU: GPU 23 %" in entry.greeting

    async def no_answer(*_them, **_named):
        raise StoreUnavailable("the database is locked", "Wait.")

    monkeypatch.setattr(scene.house.store.history, "grids", no_answer)
    scene.clock.go_on(timedelta(minutes=2))
    entry = await enter(scene.house, Knock(ANN, session.name, Purpose.SHELL), SubmitBody(gpus="0"), 0)
    assert entry.greeting.startswith(session.name)
    assert "starves" not in entry.greeting


@pytest.fixture
def app(scene: Scene):
    return make_app(Context(scene.house, SignInLinks(scene.clock), "http://server"))


async def token_of(scene: Scene, name: str) -> str:
    _, token = await scene.house.registry.create_token(name, "test", "full", None)
    return token


async def test_users_are_told_of_their_own_and_admins_of_all(scene: Scene, app):
    session = await a_running_session(scene)
    await works(scene, session, 30)
    await scene.house.registry.ensure_admin("root")
    ann, bob, root = [await token_of(scene, name) for name in ("ann", "bob", "root")]
    status, own = await ask(app, ann, "/advice")
    assert status == 200
    [item] = own["items"]
    assert (item["session"], item["owner"], item["code"], item["window_s"]) == (session.name, "ann", "loader_starves", 1800)
    assert item["evidence"][0] == {"what": "gpu", "value": 0.23, "unit": "ratio", "of": None}
    assert item["simulated"] is True
    assert (await ask(app, bob, "/advice"))[1] == {"items": [], "looked_at": 0, "next": None}
    assert (await ask(app, bob, "/advice", session=session.id))[0] == 404
    for asked in ({"user": "ann"}, {"all_users": "1"}):
        assert (await ask(app, bob, "/advice", **asked))[0] == 403
        assert len((await ask(app, root, "/advice", **asked))[1]["items"]) == 1
    assert (await ask(app, root, "/advice"))[1]["looked_at"] == 0


async def test_a_session_tells_of_itself_from_inside(scene: Scene, app):
    session = await a_running_session(scene)
    await works(scene, session, 30)
    status, told = await ask(app, make_pass(b"secret", session), "/advice", session=session.name)
    assert (status, [item["code"] for item in told["items"]]) == (200, ["loader_starves"])


async def test_one_that_is_over_has_a_summary_and_what_to_do_better_next_time(scene: Scene, app):
    session = await a_running_session(scene, memory="8GiB")
    await works(scene, session, 40, memory=2 * GIB)
    await scene.stop(session)
    await scene.rest()
    over = await scene.now(session)
    made = await summary_of(scene.house, over)
    assert made is not None
    assert made.held_s == pytest.approx(2400, abs=60)
    assert made.used_s == pytest.approx(0.23 * 2400, rel=0.1)
    assert made.energy_j == pytest.approx(300 * 2400, rel=0.1)
    assert made.cost is None
    assert made.peaks.memory_bytes == 2 * GIB
    assert (made.sufficed.gpus, made.sufficed.memory_bytes) == (0.5, 3 * GIB)
    ann = await token_of(scene, "ann")
    status, shape = await ask(app, ann, f"/sessions/{session.id}/summary")
    assert status == 200
    assert shape["summary"]["lines"][1] == "would have sufficed: --gpus 0.5 --memory 3GiB"
    assert "0.67 GPU-hours" in shape["summary"]["lines"][0]
    assert [item["code"] for item in (await ask(app, ann, "/advice", session=session.id))[1]["items"]] == ["loader_starves"]
    bob = await token_of(scene, "bob")
    assert (await ask(app, bob, f"/sessions/{session.id}/summary"))[0] == 404


async def test_one_that_runs_has_no_summary_yet(scene: Scene, app):
    session = await a_running_session(scene)
    assert (await ask(app, await token_of(scene, "ann"), f"/sessions/{session.name}/summary"))[1]["summary"] is None


