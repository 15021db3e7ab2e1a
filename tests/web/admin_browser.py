"""A browser on the whole application, signed in as whoever the test says; with what admin pages are given."""
from http.cookies import SimpleCookie

from house_scene import Scene
from session_browser import URL, Browser, Page

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.api.problems import status_and_title
from gpufairy.control.links import SignInLinks
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.core.people import Role
from gpufairy.main.alerts import make_alert_desk
from gpufairy.web import routes as pages
from gpufairy.web.context import PageContext
from gpufairy.wire.config import Config


class AnyBrowser(Browser):
    """Keeps the cookies that it is given, one after the other."""

    def __init__(self, scene: Scene, cookie: str = "", **page_settings: object) -> None:
        self.links = SignInLinks(scene.house.clock)
        page_settings = {"desk": make_alert_desk(scene.house, Config(), URL), **page_settings}
        self._app, self._cookie = make_app(Context(scene.house, self.links, URL)), cookie
        self._app.include_router(pages.routes(PageContext(scene.house, self.links, URL, "fairy", status_and_title, **page_settings)))

    @property
    def cookie(self) -> str:
        return self._cookie


def cookies_of(page: Page) -> dict[str, str]:
    found = SimpleCookie()
    found.load(page.headers.get("set-cookie", ""))
    return {name: morsel.value for name, morsel in found.items()}


async def as_user(scene: Scene, name: str = "root", role: Role = Role.ADMIN, **page_settings: object) -> AnyBrowser:
    if name not in {user.name for user in scene.house.registry.users()}:
        await scene.house.registry.add_user(name, role, None)
    _, cookie = await scene.house.registry.create_token(name, "browser", PAGE_SCOPE, None)
    return AnyBrowser(scene, cookie, **page_settings)


async def done_by_people(scene: Scene) -> list[tuple[str, str, str]]:
    events = await scene.house.store.events.page(limit=100)
    return [(event.actor, event.what, event.name) for event in events if event.actor]
