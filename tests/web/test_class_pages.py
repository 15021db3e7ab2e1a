"""Pages of classes and accounts: a roster is seen before it is applied, a link is used by a click alone, figures are those of the ledger."""
import base64
import hashlib
import re
from datetime import timedelta

import pytest
from admin_browser import AnyBrowser, as_user, done_by_people
from house_scene import a_house

from builders import NOW
from gpufairy.control.class_deeds import add_class
from gpufairy.control.class_links import make_links
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.core.people import Role
from gpufairy.core.tariff import MILLION, Rate, Tariff
from gpufairy.engines.class_folders import ClassFolders
from gpufairy.wire.classes import ClassBody

pytestmark = pytest.mark.slow

NASTY = "<script>alert(1)</script>"
DATES = {"end": f"{NOW + timedelta(days=30):%Y-%m-%d}"}


@pytest.fixture
async def scene(tmp_path):
    async with a_house(tmp_path) as found:
        found.house.classes.folders = ClassFolders(tmp_path / "homes", tmp_path / "handin", own_uids=False)
        (tmp_path / "homes").mkdir()
        yield found


@pytest.fixture
async def admin(scene):
    return await as_user(scene)


def as_base64(text, encoding="cp949"):
    return base64.b64encode(text.encode(encoding)).decode()


async def a_class(scene, **fields):
    body = {"name": "cs231n", "roster": as_base64("학번,이름\nkim,김\nlee,이\n"), **DATES, **fields}
    await add_class(scene.house, "root", ClassBody(**body))


async def test_a_roster_is_shown_with_its_faults_before_anything_is_done(scene, admin):
    page = await admin.post("/admin/classes/look", name="cs231n", roster=as_base64("학번,이름\n20231234,김철수\nBad Login,박\n"), **DATES)
    assert page.status == 200
    assert "1 line is wrong: nothing can be applied yet." in page.words
    assert "line 3" in page.words
    assert "Read as CP949" in page.words
    assert 'action="/admin/classes/add"' not in page.text
    assert scene.house.classes.all() == []


async def test_what_is_applied_is_what_was_shown(scene, admin):
    page = await admin.post("/admin/classes/look", name="cs231n", pasted="login,name\nkim,김\n", gpus="0.5", **DATES)
    assert "1 student, and no fault." in page.words
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text.partition('action="/admin/classes/add"')[2].partition("</form>")[0]))
    done = await admin.post("/admin/classes/add", **hidden)
    assert (done.status, done.headers["location"]) == (303, "/admin/classes?name=cs231n")
    assert scene.house.classes.named("cs231n").gpus == "0.5"
    assert [user.name for user in scene.house.registry.users()] == ["kim", "root"]
    assert ("root", "class_added", "class cs231n") in await done_by_people(scene)


async def test_what_is_refused_is_said_beside_the_form_and_markup_is_only_text(scene, admin):
    page = await admin.post("/admin/classes/look", name=NASTY, pasted="login\nkim\n", **DATES)
    assert page.status == 400
    assert "is no name of a class" in page.text
    page = await admin.post("/admin/classes/look", name="cs231n", pasted=f"login,name\nkim,{NASTY}\n", **DATES)
    assert NASTY.encode() not in page.body
    assert (await admin.post("/admin/classes/look", name="cs231n", **DATES)).status == 400
    assert (await admin.get("/admin/classes?name=none")).status == 404


async def test_a_roster_applied_again_shuts_out_only_where_that_was_ticked(scene, admin):
    await a_class(scene)
    page = await admin.post("/admin/classes/look-again", of="cs231n", pasted="login\nkim\ncho\n")
    assert "Not in the roster any more: 1" in page.words
    assert "Shut out those who are not in the roster any more" in page.words
    await admin.post("/admin/classes/roster", of="cs231n", roster=as_base64("login\nkim\ncho\n"))
    assert not scene.house.registry.user("lee").disabled
    await admin.post("/admin/classes/roster", of="cs231n", roster=as_base64("login\nkim\ncho\n"), shut_out="1")
    assert scene.house.registry.user("lee").disabled


async def test_links_are_shown_once_and_come_as_a_file(scene, admin):
    await a_class(scene)
    page = await admin.post("/admin/classes/links", of="cs231n")
    codes = re.findall(r"/join\?code=(class_[\w-]+)", page.text)
    assert len(codes) == 2
    assert codes[0] not in (await admin.get("/admin/classes?name=cs231n")).text
    sheet = await admin.post("/admin/classes/links-csv", of="cs231n")
    assert sheet.headers["content-type"].startswith("text/csv")
    assert "login,name,email,link" in sheet.text
    assert "cs231n-links.csv" in sheet.headers["content-disposition"]
    stranger = AnyBrowser(scene)
    assert (await stranger.get(f"/join?code={codes[0]}")).status == 401  # the file made them anew


async def test_a_link_is_not_used_up_by_being_looked_at_and_dies_when_it_is_used(scene):
    await a_class(scene)
    [made] = await make_links(scene.house, "root", scene.house.classes.named("cs231n"), ["kim"], all_of_them=False)
    stranger = AnyBrowser(scene)
    for _ in range(2):
        page = await stranger.get(f"/join?code={made.code}")
        assert (page.status, "You are kim in class cs231n." in page.words) == (200, True)
    assert (await stranger.post("/join", origin="https://evil.example", code=made.code)).status == 403
    page = await stranger.post("/join", code=made.code)
    assert (page.status, page.headers["location"]) == (303, "/account")
    assert [token.scope for token in scene.house.registry.tokens("kim")] == [PAGE_SCOPE]
    again = await stranger.post("/join", code=made.code)
    assert (again.status, "used before" in again.text) == (401, True)


async def test_hand_ins_are_fetched_by_teachers_and_admins_alone(scene, admin):
    await scene.house.registry.add_user("prof", Role.USER, None)
    await a_class(scene, teachers=["prof"])
    (scene.house.classes.folders.hand_in_folder("cs231n", "kim") / "answer.txt").write_text("42")
    for browser in (admin, await as_user(scene, "prof")):
        page = await browser.get("/classes/cs231n/handins")
        assert (page.status, b"answer.txt" in page.body) == (200, True)
    assert (await (await as_user(scene, "kim")).get("/classes/cs231n/handins")).status == 403


async def test_a_class_is_reset_changed_archived_and_forgotten_on_its_page(scene, admin):
    await a_class(scene)
    assert (await admin.post("/admin/classes/reset", of="cs231n", aside="1", confirm="no")).status == 400
    assert (await admin.post("/admin/classes/reset", of="cs231n")).status == 303
    later = f"{NOW + timedelta(days=60):%Y-%m-%dT%H:%M}"
    await admin.post("/admin/classes/change", of="cs231n", end=later, gpus="0.25", homes="keep")
    assert scene.house.classes.named("cs231n").gpus == "0.25"
    assert (await admin.post("/admin/classes/burn", of="cs231n")).status == 400
    assert (await admin.post("/admin/classes/archive", of="cs231n")).status == 303
    assert "Archived" in (await admin.get("/admin/classes?name=cs231n")).words
    assert (await admin.post("/admin/classes/remove", of="cs231n")).headers["location"] == "/admin/classes"


async def held_an_hour(scene):
    await scene.house.registry.ensure_user("ann")
    session = await scene.submit()
    await scene.rest()
    await scene.later(timedelta(hours=1))
    await scene.stop(session)
    await scene.rest()


async def test_the_page_of_accounts_says_hours_cost_and_what_is_not_known(scene, admin):
    scene.house.tariff = Tariff((Rate(NOW - timedelta(days=300), 500 * MILLION),), "KRW", 0)
    await held_an_hour(scene)
    page = await admin.get("/admin/accounting")
    assert "1.00 GPU-hours were held" in page.words
    assert "They cost 500 KRW." in page.words
    assert "The energy of 1.00 GPU-hours was not metered." in page.words
    assert (await admin.get("/admin/accounting?month=1999-01")).status == 400
    for by in ("team", "image", "kind", "month"):
        assert "1.00" in (await admin.get(f"/admin/accounting?by={by}")).words
    csv = await admin.get("/accounting/report?format=csv")
    assert csv.text.splitlines()[-1].startswith("total,1.000000")


async def test_a_user_sees_their_own_part_and_an_admin_all(scene, admin):
    await held_an_hour(scene)
    ann, eve = await as_user(scene, "ann"), await as_user(scene, "eve", Role.USER)
    assert "Your month so far" in (await ann.get("/fairness")).words
    assert "Your month so far" not in (await eve.get("/fairness")).words
    assert "1.00" in (await ann.get("/accounting/report")).words
    assert "Nobody held a GPU." in (await eve.get("/accounting/report")).words
    assert "Nobody held a GPU." in (await admin.get("/accounting/report?own=1")).words
    korean = await admin.get("/accounting/report", **{"accept-language": "ko"})
    assert "GPU 사용 내역" in korean.text


async def test_the_page_to_print_has_a_policy_that_lets_its_own_style_through_and_nothing_else(scene, admin):
    page = await admin.get("/accounting/report")
    style = page.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert page.headers["content-security-policy"] == f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
