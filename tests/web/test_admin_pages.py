"""The admin pages: for admins alone, every change by the very functions of the API, refusals beside the form."""
import re

import pytest
from admin_browser import as_user, done_by_people
from house_scene import a_house

from gpufairy.api.policy import POLICY, Who
from gpufairy.control.commit import commit
from gpufairy.control.registry import Caller
from gpufairy.core.image import ImageRules, ImageState
from gpufairy.core.node import NodeState
from gpufairy.core.people import Role
from gpufairy.core.share import PARTS
from gpufairy.engines.fake_shelf import FakeShelf
from gpufairy.web.admin_settings import documentation, settings_sections, written
from gpufairy.web.asked import Language
from gpufairy.wire.config import Config

pytestmark = pytest.mark.slow

PAGES = [path for method, path in POLICY if method == "GET" and path.startswith("/admin")]
HANGUL = re.compile("[가-힣]")
NASTY = "<script>alert(1)</script>"


@pytest.fixture
async def scene(tmp_path):
    shelf = FakeShelf("ubuntu:24.04")
    async with a_house(tmp_path, shelf=shelf, images=ImageRules("ubuntu:24.04")) as found:
        await found.house.registry.ensure_user("ann")
        yield found


@pytest.fixture
async def admin(scene):
    return await as_user(scene)


async def test_who_is_no_admin_is_told_so_on_every_page_and_changes_nothing(scene):
    ann = await as_user(scene, "ann")
    for path in PAGES:
        page = await ann.get(path.replace("{name}", "ann"))
        assert page.status == 403
        assert "this page is for admins, and ann is none" in page.text
    for method, path in POLICY:
        if method == "POST" and path.startswith("/admin"):
            assert (await ann.post(path.format(name="ann", deed="change"), role="admin", name="bea")).status == 403
    assert [user.name for user in scene.house.registry.users() if user.role is Role.ADMIN] == []


def test_the_policy_has_every_admin_page_for_admins_alone_and_no_other():
    for (_method, path), who in POLICY.items():
        assert (who is Who.ADMIN_PAGE) == (path == "/admin" or path.startswith("/admin/")), path


async def test_every_page_opens_and_asks_for_its_live_part_alone(scene, admin):
    await scene.submit()
    await scene.rest()
    for path in PAGES:
        page = await admin.get(path.replace("{name}", "ann"))
        assert page.status == 200, path
        assert 'aria-current="page"' in page.text
        live = await admin.live(path.replace("{name}", "ann"))
        assert "<html" not in live.text


async def test_a_form_of_another_site_changes_nothing(scene, admin):
    assert (await admin.post("/admin/users", origin="https://evil.example", name="mallory")).status == 403
    assert "mallory" not in {user.name for user in scene.house.registry.users()}


async def test_a_user_is_added_changed_and_shut_out_and_all_of_it_is_in_the_audit(scene, admin):
    assert (await admin.post("/admin/users", name="kim", role="user", team="nlp")).headers["location"] == "/admin/users/kim"
    await admin.post("/admin/users/kim/change", role="admin", team="vision", share="2.5")
    await admin.post("/admin/users/kim/shut-out")
    kim = scene.house.registry.user("kim")
    assert (kim.role, kim.team, kim.share, kim.disabled) == (Role.ADMIN, "vision", 2.5, True)
    done = [("root", "user_added", "user kim"), ("root", "user_changed", "user kim"), ("root", "user_changed", "user kim")]
    assert await done_by_people(scene) == done
    audit = await admin.get("/admin/audit?user=kim")
    assert "role admin, team vision, share 2.5, shut out" in audit.words


async def test_what_is_refused_is_shown_beside_its_form_with_what_was_typed(scene, admin):
    page = await admin.post("/admin/users", name=f"Kim {NASTY}", team="nlp")
    assert page.status == 400
    assert "is no user name" in page.text
    assert "Use up to 31 of a-z" in page.text
    assert f'value="Kim {NASTY}"' in page.text
    assert b"<script>" not in page.body.replace(b"<script defer", b"")
    assert b"hx-get" not in page.body  # the address is that of the form: what was typed stays


async def test_the_only_admin_cannot_shut_themselves_out(scene, admin):
    page = await admin.post("/admin/users/root/shut-out")
    assert (page.status, "root is the only admin" in page.text) == (409, True)


async def test_a_sign_in_link_and_a_token_are_shown_once_and_work(scene, admin):
    page = await admin.post("/admin/users/ann/link")
    code = re.search(r"/signin\?code=([\w-]+)", page.text)[1]
    assert admin.links.use(code) == "ann"
    page = await admin.post("/admin/users/ann/token", label="laptop", expires="1d", scope="full")
    text = re.search(r"fairy_[\w-]{40,}", page.text)[0]
    assert scene.house.registry.caller(text).user.name == "ann"
    assert text not in (await admin.get("/admin/users/ann")).text
    token = next(token for token in scene.house.registry.tokens("ann") if token.label == "laptop")
    await admin.post("/admin/users/ann/revoke", token=token.id)
    assert scene.house.registry.tokens("ann") == []


async def test_a_form_for_one_user_does_not_end_anothers_token(scene, admin):
    token, _ = await scene.house.registry.create_token("root", "mine", "full", None)
    assert (await admin.post("/admin/users/ann/revoke", token=token.id)).status == 404
    assert scene.house.registry.token(token.id)


async def test_teams_and_quotas_are_set_and_unset_and_say_what_is_used(scene, admin):
    await admin.post("/admin/teams/add", name="nlp", share="3")
    await admin.post("/admin/teams/share", name="nlp", share="2")
    assert [(team.name, team.share) for team in scene.house.teams.all()] == [("nlp", 2)]
    await admin.post("/admin/quotas/set", of="user:ann", kind="*", gpus="2", gpu_hours="", sessions="4")
    await scene.submit()
    await scene.rest()
    page = await admin.get("/admin/quotas?of=user:ann&kind=*")
    assert "1 of 2 GPUs at once" in page.words
    assert 'value="4"' in page.text  # the form is filled with what it is now
    refused = await admin.post("/admin/quotas/set", of="user:nobody", gpus="x")
    assert refused.status == 404
    await admin.post("/admin/quotas/remove", of="user:ann", kind="*")
    assert scene.house.quotas.all() == ()
    await admin.post("/admin/teams/remove", name="nlp")
    assert scene.house.teams.all() == []


async def test_an_image_that_waits_is_approved_or_refused(scene, admin):
    session = await scene.submit(command=None)
    await scene.rest()
    await commit(scene.house, Caller(scene.house.registry.user("ann"), "full"), await scene.now(session), "ann/apex:1")
    assert "1 thing waits for you" in (await admin.get("/admin")).words
    assert "1 image waits for your yes or no" in (await admin.get("/admin/images")).words
    assert (await admin.post("/admin/images/approve", image="ann/apex:1")).status == 303
    assert scene.house.gallery.made("ann/apex:1").state is ImageState.APPROVED
    await admin.post("/admin/images/refuse", image="ann/apex:1")
    assert scene.house.gallery.made("ann/apex:1").decided_by == "root"


async def test_a_node_is_drained_with_a_reason_and_taken_back(scene, admin):
    await admin.post("/admin/nodes/drain", name="here", why=f"new memory {NASTY}")
    assert scene.house.nodes[0].state is NodeState.DRAINED
    assert f"new memory {NASTY}" in (await admin.get("/admin/nodes")).text
    assert NASTY.encode() not in (await admin.get("/admin/nodes")).body
    await admin.post("/admin/nodes/resume", name="here")
    assert scene.house.nodes[0].state is NodeState.READY
    assert (await admin.post("/admin/nodes/drain", name="there")).status == 404


async def test_an_agent_is_accepted_only_with_the_fingerprint_that_was_seen(scene, admin):
    scene.house.agents.hello("gpu02", bytes(32), "10.0.0.2")
    assert "The agent of gpu02 asks to be let in" in (await admin.get("/admin/nodes")).words
    assert (await admin.post("/admin/nodes/accept", name="gpu02", fingerprint="SHA256:another")).status == 409
    waiting = scene.house.agents.waiting()
    assert [one.name for one in waiting] == ["gpu02"]
    fingerprint = re.search(r"SHA256:[\w+/]{43}", (await admin.get("/admin/nodes")).text)[0]
    await admin.post("/admin/nodes/accept", name="gpu02", fingerprint=fingerprint)
    assert [one.name for one in scene.house.agents.accepted()] == ["gpu02"]
    await admin.post("/admin/nodes/forget", name="gpu02")
    assert scene.house.agents.accepted() == []


async def test_the_page_of_shares_says_what_is_only_accounted_and_takes_a_rule(scene, admin):
    page = await admin.get("/admin/shares")
    assert "Shares of all 2 GPUs are only accounted" in page.words
    assert "2 × A100-40GB" in page.words
    await admin.post("/admin/shares/set", of="*", fgpu="5", sharing="")
    assert {gpu.fgpu_parts for gpu in scene.house.nodes[0].gpus} == {5 * PARTS}
    assert (await admin.post("/admin/shares/set", of="*", fgpu="many")).status == 400
    assert (await admin.post("/admin/shares/test", gpu="")).status == 409  # there is none on this server
    await admin.post("/admin/shares/clear", of="*")
    assert scene.house.shares.rules() == []


async def test_events_are_filtered_by_the_address_and_paged(scene, admin):
    for number in range(60):
        await scene.submit(name=f"job-{number}", gpus="0")
    first = await admin.get("/admin/events?what=submitted")
    assert first.text.count('id="event-') == 50
    older = re.search(r'href="(/admin/events\?[^"]*before=\d+)"', first.text)[1]
    assert (await admin.get(older)).text.count('id="event-') == 10
    assert (await admin.get("/admin/events?session=job-7")).text.count('id="event-') == 1
    assert "Nothing that fits the filter" in (await admin.get("/admin/events?user=nobody")).words
    wrong = await admin.get("/admin/events?since=yesterday-ish")
    assert (wrong.status, "is no duration" in wrong.text) == (400, True)
    assert (await admin.get("/admin/events?until=1d")).text.count('id="event-') == 0  # all of it is newer


def test_the_settings_are_documented_in_korean_as_they_are_in_english():
    english, korean = documentation(), documentation(Language.KO)
    assert set(english) == set(korean)
    for setting, told in korean.items():
        assert HANGUL.search(told.what) or told.what == english[setting].what, setting


def test_every_setting_is_documented_and_what_is_changed_is_marked():
    told = documentation()
    sections = settings_sections(Config.model_validate({"policy": {"half_life": "3d"}}), told)
    assert [row.name for section in sections for row in section.rows if row.changed] == ["half_life"]
    missing = [f"{section.name}.{row.name}" for section in sections for row in section.rows if not row.what]
    assert missing == ["reclaim.teams"]  # told of in a paragraph of its own
    assert {name for name, _ in told} == {section.name for section in sections if section.rows} | {"folders"}


def test_no_password_of_a_database_is_shown():
    assert written("server", "store", "postgresql://fairy:hunter2@db/gpufairy") == '"postgresql://fairy:…@db/gpufairy"'


