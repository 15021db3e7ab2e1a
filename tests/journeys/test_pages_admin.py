"""A real browser on the admin pages, on ways to sign in, and on help: nothing is forbidden by a policy of ours."""
import pytest
from bench.server import LiveServer
from chromium import PHONE, a_page
from oidc_provider import CLIENT, SECRET, Provider

from gpufairy.core.people import Role
from waits import until

pytestmark = [pytest.mark.slow, pytest.mark.system]

SUBMIT = "form = [...document.forms].filter(one => one.getAttribute('action') === '{action}').at(-1); {fill} form.requestSubmit()"
YES = "window.confirm = (words) => {{ window.asked = words; return {answer} }}"
PAGES = ("", "/users", "/users/kim", "/teams", "/quotas", "/images", "/nodes", "/shares", "/mig", "/events", "/audit", "/settings")


@pytest.fixture
def live(tmp_path):
    with LiveServer(tmp_path / "fairy", "", ("--simulate", "1xA100-40GB,1xA100-40GB:mig=3g.20gb+2g.10gb")) as server:
        yield server


async def submit(page, action, **fields):
    await page.until(f"document.querySelector('form[action=\"{action}\"]') !== null")
    fill = " ".join(f"form.elements['{name}'].value = '{value}';" for name, value in fields.items())
    await page.see(SUBMIT.format(action=action, fill=fill))


async def test_an_admin_adds_somebody_who_then_signs_in_by_the_link_and_adds_a_key(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.go(f"{live.url}/admin/users")
        await page.shows("You are alone here")
        await submit(page, "/admin/users", name="Kim!")
        await page.shows("is no user name")
        assert await page.see("document.querySelector('input[name=name]').value") == "Kim!"
        await submit(page, "/admin/users", name="kim", team="nlp")
        await page.until("location.pathname === '/admin/users/kim'")
        await submit(page, "/admin/users/kim/link")
        await page.until("document.getElementById('made') !== null")
        link = await page.see("document.getElementById('made').innerText")
        await page.keep("admin-sign-in-link")
        await page.sign_in(link)
        await page.go(f"{live.url}/admin")
        await page.shows("this page is for admins, and kim is none")
        await page.go(f"{live.url}/help")
        await page.shows("How turns work")
        await page.go(f"{live.url}/account")
        key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl kim@laptop"
        await submit(page, "/account/add-key", key=key)
        await page.shows("SHA256:+DiY3wvvV6TuJJhbpZisF")
        await page.see(YES.format(answer="true"))
        await submit(page, "/signout/everywhere")
        await page.shows("You are not signed in")
        assert page.forbidden == []
    assert live.client().user("kim")["role"] == Role.USER


async def test_a_cut_is_seen_before_it_is_done_and_done_only_after_a_yes(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.go(f"{live.url}/admin/mig")
        await page.shows("1 in MIG mode")
        await page.see("[...document.querySelectorAll('.cut-row a')].at(-1).click()")
        await page.until("document.querySelector('input[name=want]') !== null")
        await submit(page, "/admin/mig#plan", want="7x1g.5gb")
        await page.shows("It fits, and 2 idle instances go for it.")
        await page.keep("mig-preview")
        await page.see(YES.format(answer="false"))
        await submit(page, "/admin/mig/apply")
        await page.until("window.asked?.includes('what is idle and in the way goes')")
        await page.see(YES.format(answer="true"))
        await submit(page, "/admin/mig/apply")
        await page.until("document.querySelectorAll('.cuts .cut-row:last-child .mig-cut .idle').length === 7")
        assert page.forbidden == []
    until(lambda: any(event["what"] == "mig_cut" for event in live.client().events()), "the event of the cut")


async def test_an_open_page_learns_by_itself_that_a_node_was_drained(live):
    async with a_page() as page:
        await page.sign_in(live.client().sign_in_link())
        await page.go(f"{live.url}/admin/nodes")
        await page.until("document.querySelector('select[name=name]') !== null")
        await page.see("document.querySelector('input[name=why]').value = 'typed, not sent'")
        node = live.client().nodes()[0]["name"]
        live.client().drain(node, "new memory")
        await page.until("document.getElementById('live').innerText.includes('new memory')")
        await page.keep("admin-drained")
        assert await page.see("document.querySelector('input[name=why]').value") == "typed, not sent"
        await submit(page, "/admin/nodes/resume")
        await page.until("!document.getElementById('live').innerText.includes('new memory')")
        assert page.forbidden == []


async def test_every_admin_page_fits_a_phone_and_names_what_can_be_pressed(live):
    live.client().add_user({"name": "kim"})
    async with a_page() as page:
        await page.wide(PHONE)
        await page.sign_in(live.client().sign_in_link())
        for path in (*(f"/admin{part}" for part in PAGES), "/account", "/help"):
            await page.open(f"{live.url}{path}")
            assert await page.see("document.documentElement.scrollWidth") <= PHONE, path
            nameless = "[...document.querySelectorAll('button, a, input:not([type=hidden]), select, textarea')].filter(one => !(one.ariaLabel || one.innerText?.trim() || one.labels?.length || one.title)).length"
            assert await page.see(nameless) == 0, path
        assert page.forbidden == []


async def test_a_browser_signs_in_at_another_site_and_comes_back_to_where_it_was_going(tmp_path):
    (tmp_path / "secret").write_text(SECRET)
    async with Provider(host="localhost") as provider:  # for a browser another site than 127.0.0.1
        oidc = f"[oidc]\nissuer = '{provider.url}'\nclient_id = '{CLIENT}'\nclient_secret_file = '{tmp_path / 'secret'}'\ntitle = 'Lab SSO'\nadd_users = true\n"
        with LiveServer(tmp_path / "fairy", oidc) as live:
            async with a_page() as page:
                await page.go(f"{live.url}/queue")
                await page.until("document.querySelector('a[href=\"/signin/oidc\"]') !== null")
                await page.keep("sign-in-by-oidc")
                await page.see("document.querySelector('a[href=\"/signin/oidc\"]').click()")
                await page.until("location.pathname === '/queue' && document.querySelector('.who')?.innerText.includes('kim')")
                assert page.forbidden == []
