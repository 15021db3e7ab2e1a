"""A session's page, in all its states: what it says first, what it offers, what it sends to a page that is open."""
from dataclasses import replace
from datetime import timedelta

import pytest
from house_scene import a_house
from session_browser import Page, a_browser

from gpufairy.core.image import ImageRules
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import IdleStep, Session
from gpufairy.core.steps import idle_step
from gpufairy.core.workload import WorkloadId, workload_id
from gpufairy.engines.fake_shelf import FakeShelf

pytestmark = pytest.mark.slow

RULES = ImageRules("ubuntu:24.04", allow=("ubuntu:*", "pytorch:*"))
NASTY = "<script>alert(1)</script>\x1b]0;t\x07"


@pytest.fixture
async def scene(tmp_path):
    shelf = FakeShelf("ubuntu:24.04", "pytorch:2.7", in_registry=("pytorch:2.8",))
    async with a_house(tmp_path, shelf=shelf, images=RULES) as made:
        made.shelf = shelf
        made.browser = await a_browser(made)
        yield made


async def running(scene, **fields) -> Session:
    session = await scene.submit(**fields)
    await scene.rest()
    return await scene.now(session)


async def page_of(scene, session: Session) -> Page:
    return await scene.browser.get(f"/sessions/{session.name}")


async def test_one_that_runs_says_where_and_offers_what_can_be_done(scene):
    page = await page_of(scene, await running(scene, name="runs", gpus="0.5", time="8h"))
    assert page.status == 200
    for words in ("Running", "0.5 GPU (20 GiB)", "running on here", "Keep 2 h", "Swap image", "Make an image", "Stop", "only accounted"):
        assert words in page.text
    assert "Start again" not in page.text


async def test_one_that_waits_tells_when_it_starts_its_place_and_what_would_help(scene):
    await running(scene, name="holds", gpus="2", time="2h")
    waits = await scene.submit(name="waits", gpus="1")
    await scene.rest()
    page = await page_of(scene, waits)
    for words in ("Waiting", "When it starts", "place in line", "likely start", "What the machine says", "wholly free", "Give up"):
        assert words in page.words
    assert "Terminal" not in page.words


async def test_one_that_is_over_sums_up_what_it_ran_held_and_used(scene):
    session = await running(scene, name="over", gpus="0.5")
    scene.clock.go_on(timedelta(hours=2))
    scene.containers.exit(workload_id(session), 3)
    await scene.rest()
    page = await page_of(scene, session)
    for words in ("2 h ran", "3 exit code", "1.0 GPU-hours held", "not known used", "Start again"):
        assert words in page.words
    assert "Stop" not in page.words
    assert "data-live" not in page.text  # it does not change any more


async def test_who_else_is_on_the_gpu_is_told_by_owner_and_nothing_of_what_they_run(scene):
    session = await running(scene, name="mine", gpus="0.5")
    other = await scene.submit(name="secret-plan", gpus="0.25")
    await scene.rest()
    other = await scene.now(other)
    scene.house.book.put(replace(other, owner="bea", revision=other.revision + 1))
    page = await page_of(scene, session)
    assert "bea · 0.25 GPU" in page.words
    assert "secret-plan" not in page.text


async def test_an_idle_one_is_told_so_and_keeping_it_ends_that(scene):
    session = await running(scene, name="idles")
    await scene.house.save([idle_step(session, IdleStep.WARNED, scene.clock(), "idle_warned", "idle for 30 min")])
    assert "It does not use its GPUs." in (await page_of(scene, session)).text
    answer = await scene.browser.post("/sessions/idles/keep", time="2h")
    assert (answer.status, answer.headers["location"]) == (303, "/sessions/idles")
    assert "It does not use its GPUs." not in (await page_of(scene, session)).text
    assert (await scene.now(session)).kept_until == scene.clock() + timedelta(hours=2)


async def test_an_open_page_is_sent_no_log_and_no_chart_again(scene):
    session = await running(scene, name="loud")
    scene.containers.write(workload_id(session), b"a line of its log\n")
    whole, live = await page_of(scene, session), await scene.browser.live("/sessions/loud")
    assert "a line of its log" in whole.text
    assert "a line of its log" not in live.text
    assert "<html" not in live.text
    assert "<title>loud: Running</title>" in live.text


async def test_hostile_words_are_only_shown(scene):
    session = await running(scene, name="nasty", command=["sh", "-c", NASTY])
    scene.containers.write(workload_id(session), NASTY.encode())
    page = await page_of(scene, session)
    assert b"<script>alert" not in page.body
    assert b"\x1b" not in page.body
    assert page.body.count(b"&lt;script&gt;alert(1)&lt;/script&gt;") >= 2


async def test_the_log_goes_on_from_where_the_page_ends(scene):
    session = await running(scene, name="grows")
    scene.containers.write(workload_id(session), b"before\n")
    page = await page_of(scene, session)
    assert 'data-from="7"' in page.text
    scene.containers.write(workload_id(session), b"after\n")
    scene.containers.exit(workload_id(session), 0)
    await scene.rest()
    answer = await scene.browser.get("/sessions/grows/log?from=7")
    assert (answer.body, answer.headers["x-fairy-goes-on"]) == (b"after\n", "0")


async def test_the_end_of_the_log_is_counted_over_all_attempts(scene):
    session = await running(scene, name="retried", retry=5)
    for attempt in range(1, 6):
        workload = WorkloadId(session.id, attempt)
        scene.containers.write(workload, f"try {attempt}\n".encode())
        if attempt < 5:
            scene.containers.exit(workload, 1)
            await scene.rest()
            await scene.later(timedelta(hours=1))
    page = await page_of(scene, session)
    assert 'data-from="30"' in page.text
    assert "try 3\ntry 4\ntry 5\n" in page.text
    assert (await scene.browser.get("/sessions/retried/log?from=24&follow=0")).body == b"try 5\n"


async def test_charts_have_their_columns_and_what_was_given(scene):
    await running(scene, name="charted", gpus="0.5", cpus=2, memory="4GiB")
    found = (await scene.browser.get("/sessions/charted/readings?span=day")).json()
    panels = {panel["key"]: panel for panel in found["panels"]}
    assert list(panels) == ["gpu", "gpu-memory", "cpu", "memory", "disk", "network"]
    assert [panels[key]["full"] for key in ("gpu", "cpu", "memory", "disk")] == [100, 2, 4 * 2**30, None]
    assert found["until"] > found["since"]


async def test_stopping_ends_it_and_it_can_be_started_again(scene):
    session = await running(scene, name="again")
    assert (await scene.browser.post("/sessions/again/stop")).status == 303
    await scene.rest()
    assert (await scene.now(session)).phase is Phase.ENDED
    assert (await scene.browser.post(f"/sessions/{session.id}/resume")).headers["location"] == "/sessions/again"
    await scene.rest()
    assert "Running" in (await page_of(scene, session)).text


@pytest.mark.parametrize("action", ["keep", "stop", "resume", "swap", "commit"])
async def test_another_site_changes_nothing(scene, action):
    session = await running(scene, name="mine")
    assert (await scene.browser.post(f"/sessions/mine/{action}", origin="http://evil", image="pytorch:2.7")).status == 403
    assert await scene.now(session) == session


async def test_a_swap_is_chosen_from_the_images_there_are(scene):
    session = await running(scene, name="swaps")
    form = await scene.browser.get("/sessions/swaps/swap")
    assert 'value="pytorch:2.7"' in form.text
    assert (await scene.browser.post("/sessions/swaps/swap", image="pytorch:2.8")).status == 303
    await scene.rest()
    assert (await scene.now(session)).request.image == "pytorch:2.8"
    assert "It goes on with pytorch:2.8" in (await page_of(scene, session)).text


async def test_what_is_refused_is_told_beside_the_form_with_what_was_typed(scene):
    await running(scene, name="swaps")
    page = await scene.browser.post("/sessions/swaps/swap", image="evil/miner:1")
    assert page.status == 403
    assert 'value="evil/miner:1"' in page.text
    assert "is not one of those offered" in page.text
    page = await scene.browser.post("/sessions/swaps/commit", image="<b>no name</b>")
    assert page.status == 400
    assert "is no image name" in page.text
    assert b"<b>no name" not in page.body


async def test_an_image_is_made_and_the_page_says_what_came_of_it(scene):
    session = await running(scene, name="made")
    assert 'value="ann/made:' in (await scene.browser.get("/sessions/made/commit")).text
    assert (await scene.browser.post("/sessions/made/commit", image="ann/apex:1")).status == 303
    assert "Image ann/apex:1 is made: 1.9 GiB. You can use it now" in (await page_of(scene, session)).text


async def test_whoever_is_signed_out_sees_nothing_of_it(scene):
    await running(scene, name="mine")
    (token,) = await scene.house.store.people.all_tokens()
    await scene.house.registry.revoke_token(token.id)
    for path in ("", "/log", "/readings", "/swap", "/commit", "/terminal"):
        answer = await scene.browser.get(f"/sessions/mine{path}")
        assert (answer.status, "running on" in answer.text) == (401, False)
