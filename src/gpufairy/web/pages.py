"""Pages as they leave: from templates that escape everything, with headers that let a browser run our own files alone. Refusals too."""
import gzip
from collections.abc import Callable, Coroutine
from datetime import tzinfo
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpufairy import __version__
from gpufairy.core.errors import FairyError, NotSignedIn, StoreUnavailable
from gpufairy.core.people import Role, User
from gpufairy.web.asked import NEXT_COOKIE, Language, asked, asking
from gpufairy.web.assets import href
from gpufairy.web.context import PageContext
from gpufairy.web.forms import on_this_site
from gpufairy.web.hosts import host_of
from gpufairy.web.speech import _, ngettext
from gpufairy.web.text import printable
from gpufairy.web.told_here import told_here
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import hue_of

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
# xterm.js writes its colours into the page as a style: inline styles are let through where a terminal is.
TERMINAL_CSP = CSP.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms, and signing out would be refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOK_AGAIN_S = 5  # a page without a script loads itself again so often
PACKED_FROM_BYTES = 2000  # less is one packet of the network either way
PACKED_HARD = 1  # the quickest: a page of a thousand GPUs takes 8 ms, and is an eighth of what it was
LIVE = "live"  # the block of a template that may have changed since the page was opened
NEXT_GOOD_FOR_S = 3600
ROWS_KEPT, WORDS_KEPT = 2048, 4096
LONGEST_NEXT = 500  # characters: a cookie goes with every request
ANYTHING = ""  # what a page follows that is about everybody's

templates = Environment(
    loader=PackageLoader("gpufairy.web"), autoescape=True, undefined=StrictUndefined, finalize=printable,
    auto_reload=False, trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
)  # fmt: skip
templates.globals.update(href=href, version=__version__, asked=asked, languages=Language)
templates.filters["told"] = told_here
templates.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]  # added by the extension


def drawn_row(template: str, row: object) -> Markup:
    """One row of a table, drawn once for all who are shown the same. It is known by all that stands in it, and its template is told
    nothing else, so nobody is ever shown another's, nor an old one."""
    return _drawn_row(template, row, asked().language, asked().zone)


@lru_cache(ROWS_KEPT)
def _drawn_row(template: str, row: object, language: Language, zone: tzinfo | None) -> Markup:
    """`zone`: of the times that stand in sentences of core."""
    return Markup(templates.get_template(template).render(row=row))


def spoken_words(text: str, **values: object) -> Markup:
    """What `_` is in templates: as Jinja has it, which takes four calls and a substitution for every word that stands there as it is."""
    words = _marked(text, asked().language)
    return words % values if values else words


@lru_cache(WORDS_KEPT)
def _marked(text: str, language: Language) -> Markup:
    return Markup(_(text))


templates.globals.update({"drawn_row": drawn_row, "_": spoken_words})


def show(
    template: str, status: int = 200, *, user: str | None, refresh_s: int | None = None, follows: str = ANYTHING, **values: object
) -> HTMLResponse:
    """An open page that looks again is sent what is live of it alone. `follows`: what it is told of at once when that changes."""
    found = templates.get_template(template)
    live = urlencode({"of": follows, "seen": asked().changes})
    values = {"user": user, "hue": hue_of(user or ""), "refresh_s": refresh_s, "is_admin": False, "live": live, **values}
    live_only = asked().live_only and status == 200 and LIVE in found.blocks
    text = found.render(values, live_only=live_only).encode()
    headers = {"Cache-Control": "no-store", "Vary": "HX-Request, Accept-Language, Accept-Encoding, Cookie"}
    if asked().packs and len(text) >= PACKED_FROM_BYTES:
        return HTMLResponse(gzip.compress(text, PACKED_HARD, mtime=0), status, {**headers, "Content-Encoding": "gzip"})
    return HTMLResponse(text, status, headers)


def page_route(context: PageContext) -> type[APIRoute]:
    """A route whose every answer is a page: also what the guard or the route refuses."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer_of = super().get_route_handler()

            async def answer(request: Request) -> Response:
                with asking(request, context.house.bells.changes):
                    try:
                        response = await answer_of(request)
                    except FairyError as error:
                        response = refused(context, request, error)
                response.headers.update(HEADERS)
                response.headers.setdefault("Content-Security-Policy", CSP)
                return response

            return answer

    return PageRoute


def refused(context: PageContext, request: Request, error: FairyError) -> Response:
    status, title = context.status_and_title(error)
    if isinstance(error, NotSignedIn):
        page = how_to_sign_in(context, request, status, _("You are not signed in."), refresh_s=sign_in_refresh_s(request))
        return back_here_later(page, request)
    refresh_s = LOOK_AGAIN_S if isinstance(error, StoreUnavailable) else None
    user: User | None = getattr(getattr(request.state, "caller", None), "user", None)  # so that the ways on from there are shown
    return show(
        "refused.html", status, user=None if user is None else user.name, is_admin=user is not None and user.role is Role.ADMIN,
        refresh_s=refresh_s, title=title, detail=error.detail, next_step=error.next_step,
    )  # fmt: skip


def how_to_sign_in(
    context: PageContext, request: Request, status: int, answer: str, *, refresh_s: int | None = None, trouble: Trouble | None = None
) -> Response:
    return show(
        "sign_in.html", status, user=None, refresh_s=refresh_s, answer=answer, fairy=context.fairy_command, url=context.url,
        trouble=trouble, host=host_of(request, context.url), ssh_port=context.ssh_port,
        oidc=None if context.oidc is None else context.oidc.settings.title,
    )  # fmt: skip


def back_here_later(response: Response, request: Request) -> Response:
    """Whoever was turned away comes back to where they wanted to go once they have signed in."""
    wanted = page_wanted(request)
    if wanted != "/":
        response.set_cookie(NEXT_COOKIE, wanted, max_age=NEXT_GOOD_FOR_S, httponly=True, samesite="lax")
    return response


def page_wanted(request: Request) -> str:
    """The page that they went to, or on which they pressed a button. What a script of ours asks for (a log, readings) is no page."""
    if asked().live_only or "text/html" not in request.headers.get("accept", ""):
        return "/"
    came_from = urlsplit(request.headers.get("referer", ""))
    here = came_from.netloc == request.headers.get("host", "")
    pressed_on = f"{came_from.path}{'?' * bool(came_from.query)}{came_from.query}" if here else "/"
    return on_this_site(asked().path if request.method == "GET" else pressed_on)[:LONGEST_NEXT]


def sign_in_refresh_s(request: Request) -> int | None:
    """A browser that follows a link from another site keeps our cookie back this once; asked again by our own page it sends it."""
    return 0 if request.headers.get("sec-fetch-site") == "cross-site" else None
