"""The page of hosts: maintenance is planned and ended there, hosts have their record, and what is held by nobody is shown."""
from dataclasses import replace
from datetime import timedelta

import pytest
from admin_browser import as_user, done_by_people
from house_scene import a_house

from builders import NOW
from gpufairy.control.gpu_access import GpuAccess
from gpufairy.control.janitor import Janitor
from gpufairy.core.agent import Agent
from gpufairy.core.alert import Alert, Severity
from gpufairy.core.leaks import LOOKS, Repair
from gpufairy.core.workload import workload_id

pytestmark = pytest.mark.slow


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        yield found


async def test_maintenance_is_planned_shown_and_ended(scene):
    admin = await as_user(scene)
    page = await admin.get("/admin/nodes")
    assert "Plan maintenance" in page.words
    await admin.post("/admin/nodes/maintenance", name="here", start="", time="2h", why="new <b>disk</b>")
    page = await admin.get("/admin/nodes")
    assert "new <b>disk</b>" in page.text
    assert b"<b>disk</b>" not in page.body
    assert "maintenance until" in page.words
    [window] = scene.house.maintenance.windows()
    await admin.post("/admin/nodes/end-window", window=window.id)
    assert scene.house.maintenance.windows() == []
    assert [(what, name) for _, what, name in await done_by_people(scene)] == [
        ("maintenance_planned", "node here"), ("maintenance_ended", "node here"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"time": "soon"}, "is no duration"), ({"why": ""}, "nothing, more than anybody reads"), ({"name": "nowhere"}, "no host"),
        ({"start": "yesterday"}, "is no time"), ({"start": "2020-01-01T10:00"}, "over before it begins"),
    ],
)  # fmt: skip
async def test_what_is_refused_stands_beside_the_form_with_what_was_typed(scene, typed, words):
    admin = await as_user(scene)
    page = await admin.post("/admin/nodes/maintenance", **{"name": "here", "start": "", "time": "2h", "why": "new disk", **typed})
    assert page.status in (400, 404)
    assert words in page.words


async def test_each_host_has_its_record_with_reasons(scene):
    agent = Agent("gpu01", b"k", NOW - timedelta(days=10), "root")
    await scene.house.store.agents.put(agent)
    scene.house.agents._agents["gpu01"] = agent
    start, end = NOW - timedelta(days=2), NOW - timedelta(days=1)
    silent = Alert("a1", "node_silent", "gpu01", "gpu01", Severity.CRITICAL, "gpu01 is silent", "", start, start, fired_at=start)
    over = replace(silent, resolved_at=end, ended_why="it is back; the host was started anew")
    await scene.house.store.alerts.save([over], [], NOW)
    admin = await as_user(scene)
    for path in ("/admin/nodes", "/admin/alerts"):
        words = (await admin.get(path)).words
        assert "90.000 %" in words
        assert "it is back; the host was started anew" in words


async def test_what_is_held_by_nobody_is_shown_with_how_sure_that_is_and_what_was_put_right(scene):
    janitor = Janitor(scene.house, Repair.MEND, GpuAccess(scene.house, None))
    admin = await as_user(scene, janitor=janitor)
    assert "Nobody has looked yet" in (await admin.get("/admin/nodes")).words
    await janitor.look()
    assert "Nothing is held by nobody" in (await admin.get("/admin/nodes")).words
    session = await scene.submit()
    await scene.rest()
    scene.containers.vanish(workload_id(session))
    scene.clock.go_on(timedelta(minutes=1))
    await janitor.look()
    words = (await admin.get("/admin/nodes")).words
    assert f"Seen 1 of {LOOKS} times" in words
    assert f"session {session.name} of ann holds a seat on here, and nothing runs there" in words
    for _ in range(LOOKS):
        scene.clock.go_on(timedelta(minutes=1))
        await janitor.look()
    words = (await admin.get("/admin/nodes")).words
    assert "Put right of late" in words
    assert f"put right: session {session.name} of ann holds a seat on here" in words


async def test_an_engine_that_is_silent_is_said_so(scene):
    janitor = Janitor(scene.house, Repair.TELL, GpuAccess(scene.house, None))
    admin = await as_user(scene, janitor=janitor)
    scene.containers.silent = "away"
    await janitor.look()
    assert "The engine did not answer" in (await admin.get("/admin/nodes")).words
