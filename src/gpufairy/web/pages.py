"""Pages as they leave: from templates that escape everything, with headers that let a browser run our own files alone. Refusals too."""
import gzip
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpufairy import __version__
from gpufairy.core.errors import FairyError, NotSignedIn, StoreUnavailable
from gpufairy.web.asked import NEXT_COOKIE, Language, asked, asking
from gpufairy.web.assets import href
from gpufairy.web.context import PageContext
from gpufairy.web.hosts import host_of
from gpufairy.web.sentences import told
from gpufairy.web.speech import _, ngettext
from gpufairy.web.text import printable
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

templates = Environment(
    loader=PackageLoader("gpufairy.web"), autoescape=True, undefined=StrictUndefined, finalize=printable,
    auto_reload=False, trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
)  # fmt: skip
templates.globals.update(href=href, version=__version__, asked=asked, languages=Language)
templates.filters["told"] = told
templates.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]  # added by the extension


def show(template: str, status: int = 200, *, user: str | None, refresh_s: int | None = None, **values: object) -> HTMLResponse:
    """An open page that looks again is sent what is live of it alone."""
    found = templates.get_template(template)
    values = {"user": user, "hue": hue_of(user or ""), "refresh_s": refresh_s, "is_admin": False, **values}
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
                with asking(request):
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
    return show("refused.html", status, user=None, refresh_s=refresh_s, title=title, detail=error.detail, next_step=error.next_step)


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
    if request.method == "GET" and not asked().live_only and request.url.path not in ("/", "/live"):
        response.set_cookie(NEXT_COOKIE, asked().path[:500], max_age=NEXT_GOOD_FOR_S, httponly=True, samesite="lax")
    return response


def sign_in_refresh_s(request: Request) -> int | None:
    """A browser that follows a link from another site keeps our cookie back this once; asked again by our own page it sends it."""
    return 0 if request.headers.get("sec-fetch-site") == "cross-site" else None
