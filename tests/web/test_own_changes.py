"""What people change about their own ways in is written down, whether they do it on the page or by a program."""
import pytest
from admin_browser import as_user
from house_scene import a_house

from gpufairy.core.ssh_key import parse_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@laptop"


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        await found.house.registry.ensure_user("ann")
        yield found


async def changes(scene) -> list[tuple[str, str, str, str]]:
    events = await scene.house.store.events.page(limit=100)
    return [(event.actor, event.name, event.what, event.why) for event in events if event.actor]


def fingerprint(scene) -> str:
    return parse_key(KEY, "ann", scene.clock()).fingerprint


async def test_a_key_leaves_the_same_trace_by_the_page_and_by_the_api(scene):
    ann, found = await as_user(scene, "ann"), fingerprint(scene)
    await ann.post("/account/add-key", key=KEY)
    await ann.post("/account/remove-key", key=found)
    by_page = await changes(scene)
    _, token = await scene.house.registry.create_token("ann", "cli", "full", None)
    assert (await ann.api("POST", "/keys", token, {"key": KEY})).status == 201
    assert (await ann.api("DELETE", f"/keys/{found}", token)).status == 204
    assert (await changes(scene))[len(by_page) :] == by_page
    assert by_page == [
        ("ann", "user ann", "key_added", f"{found} ann@laptop"),
        ("ann", "user ann", "key_removed", f"{found} ann@laptop"),
    ]


async def test_a_key_that_is_there_already_is_no_change(scene):
    ann = await as_user(scene, "ann")
    await ann.post("/account/add-key", key=KEY)
    await ann.post("/account/add-key", key=KEY)
    assert [what for _, _, what, _ in await changes(scene)] == ["key_added"]


async def test_a_token_made_and_revoked_is_written_down(scene):
    ann = await as_user(scene, "ann")
    _, token = await scene.house.registry.create_token("ann", "cli", "full", None)
    made = (await ann.api("POST", "/tokens", token, {"label": "laptop"})).json()
    await ann.post("/account/revoke", token=made["id"])
    assert [(what, why) for _, _, what, why in await changes(scene)] == [
        ("token_made", "laptop, full, good until it is revoked"),
        ("token_revoked", "laptop, full"),
    ]


@pytest.mark.slow
async def test_signing_out_everywhere_is_one_line_and_ends_browsers_alone(scene):
    here, there = await as_user(scene, "ann"), await as_user(scene, "ann")
    _, token = await scene.house.registry.create_token("ann", "cli", "full", None)
    await here.post("/signout/everywhere")
    assert await changes(scene) == [("ann", "user ann", "signed_out_everywhere", "2 browsers")]
    assert [(await one.get("/account")).status for one in (here, there)] == [401, 401]
    assert (await here.api("GET", "/me", token)).status == 200
