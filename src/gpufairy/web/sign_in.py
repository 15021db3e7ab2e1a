"""Signing a browser in and out. The cookie it keeps opens pages and nothing else."""
from datetime import timedelta
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gpufairy.control.links import PAGE_COOKIE, PAGE_GOOD_FOR
from gpufairy.control.registry import PAGE_SCOPE, Registry
from gpufairy.core.errors import NotAllowed
from gpufairy.web.asked import NEXT_COOKIE

SEE_OTHER = 303


async def signed_in(registry: Registry, user: str, url: str, to: str = "/", good_for: timedelta = PAGE_GOOD_FOR) -> Response:
    _, text = await registry.create_token(user, "browser", PAGE_SCOPE, good_for)
    answer = to_page(to)
    answer.set_cookie(
        PAGE_COOKIE, text, max_age=int(good_for.total_seconds()), path="/",
        secure=url.startswith("https:"), httponly=True, samesite="strict",
    )  # fmt: skip
    if to != "/":
        answer.delete_cookie(NEXT_COOKIE, path="/")
    return answer


async def signed_out(registry: Registry, token_id: str) -> Response:
    await registry.revoke_token(token_id)
    answer = to_page("/")
    answer.delete_cookie(PAGE_COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def to_page(path: str) -> Response:
    return RedirectResponse(path, SEE_OTHER, {"Cache-Control": "no-store"})


def only_looks_ahead(request: Request) -> bool:
    """A browser that guesses where its user goes next. It must not use a link up; refused, it asks again when they do go there."""
    purpose = request.headers.get("sec-purpose", "") + request.headers.get("purpose", "")
    return "prefetch" in purpose or "prerender" in purpose


def check_same_origin(request: Request, url: str) -> None:
    """Cookies go to every port of a host, so other servers there could post with ours: the browser must say that it was our page."""
    if request.headers.get("sec-fetch-site") == "same-origin":
        return
    # People reach the server by names it does not know of, and a proxy may speak TLS for it: so either will do.
    own = {f"{request.url.scheme}://{request.headers.get('host', '')}", "{0.scheme}://{0.netloc}".format(urlsplit(url))}
    if request.headers.get("origin") not in own:
        raise NotAllowed("this came from another site, or the browser does not say from where", "Use the button on the page itself.")
