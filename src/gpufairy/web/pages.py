"""Pages as they leave: from templates that escape everything, with headers that let a browser run nothing; refusals as pages too."""
import hashlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpufairy import __version__
from gpufairy.core.errors import FairyError, NotSignedIn, StoreUnavailable
from gpufairy.web.context import PageContext
from gpufairy.web.text import printable
from gpufairy.web.words import hue_of

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send `Origin: null` with our own forms, and signing out would be refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOK_AGAIN_S = 5  # a page without a script loads itself again so often
LOOK = (Path(__file__).parent / "static" / "look.css").read_bytes()
LOOK_HREF = f"/static/look.css?v={hashlib.sha256(LOOK).hexdigest()[:12]}"

templates = Environment(
    loader=PackageLoader("gpufairy.web"), autoescape=True, undefined=StrictUndefined, finalize=printable,
    auto_reload=False, trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
templates.globals.update(look_href=LOOK_HREF, version=__version__)


def show(template: str, status: int = 200, *, user: str | None, refresh_s: int | None = None, **values: object) -> HTMLResponse:
    text = templates.get_template(template).render(user=user, hue=hue_of(user or ""), refresh_s=refresh_s, **values)
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def page_route(context: PageContext) -> type[APIRoute]:
    """A route whose every answer is a page: also what the guard or the route refuses."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer_of = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    response = await answer_of(request)
                except FairyError as error:
                    response = refused(context, request, error)
                response.headers.update(HEADERS)
                return response

            return answer

    return PageRoute


def refused(context: PageContext, request: Request, error: FairyError) -> Response:
    status, title = context.status_and_title(error)
    if isinstance(error, NotSignedIn):
        return how_to_sign_in(context, status, "You are not signed in.", refresh_s=sign_in_refresh_s(request))
    refresh_s = LOOK_AGAIN_S if isinstance(error, StoreUnavailable) else None
    return show("refused.html", status, user=None, refresh_s=refresh_s, title=title, detail=error.detail, next_step=error.next_step)


def how_to_sign_in(context: PageContext, status: int, answer: str, refresh_s: int | None) -> Response:
    return show("sign_in.html", status, user=None, refresh_s=refresh_s, answer=answer, fairy=context.fairy_command, url=context.url)


def sign_in_refresh_s(request: Request) -> int | None:
    """A browser that follows a link from another site keeps our cookie back this once; asked again by our own page it sends it."""
    return 0 if request.headers.get("sec-fetch-site") == "cross-site" else None
