"""Routes of signing in: by a link that works once, by a token, by whoever knows the lab's people (OpenID Connect); and out again."""
from datetime import timedelta

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from gpufairy.control.house import House
from gpufairy.control.links import PAGE_GOOD_FOR
from gpufairy.core.amounts import show_duration
from gpufairy.core.errors import FairyError, NoSuchThing, NotAllowed, NotSignedIn
from gpufairy.core.names import user_name
from gpufairy.core.people import User
from gpufairy.web.asked import NEXT_COOKIE
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of, fields_of, on_this_site
from gpufairy.web.oidc import Oidc
from gpufairy.web.pages import how_to_sign_in
from gpufairy.web.sign_in import SEE_OTHER, check_same_origin, only_looks_ahead, signed_in, signed_out
from gpufairy.web.sign_in_tries import WrongTries
from gpufairy.web.speech import _
from gpufairy.web.trouble import Trouble

OIDC_COOKIE = "fairy_oidc"  # ties the answer of the sign-in service to the browser that was sent there
OIDC_PATH = "/signin/oidc"
TOO_MANY = 429
NOT_KNOWN = 401


def add_sign_in_routes(router: APIRouter, context: PageContext) -> None:
    registry = context.house.registry

    @router.get("/signin")
    async def sign_in(request: Request, code: str = "") -> Response:
        if only_looks_ahead(request):
            return Response(status_code=503, headers={"Cache-Control": "no-store"})
        if not code:
            return how_to_sign_in(context, request, 200, _("Sign in."))
        user = context.links.use(code)
        if user is not None:
            return await signed_in(registry, user, context.url, next_of(request))
        return how_to_sign_in(context, request, NOT_KNOWN, _("This sign-in link was used before, or is too old."))

    @router.post("/signout")
    async def sign_out(request: Request) -> Response:
        check_same_origin(request, context.url)
        token_id = caller_of(request).token_id
        assert token_id is not None
        return await signed_out(registry, token_id)

    add_by_token(router, context)
    add_by_oidc(router, context)


def add_by_token(router: APIRouter, context: PageContext) -> None:
    house, tries = context.house, WrongTries(context.house.clock)

    @router.post("/signin")
    async def by_token(request: Request) -> Response:
        """The token is looked at once and not kept: the browser gets one of its own, which opens pages alone."""
        fields = await fields_of(request, context.url)
        source = request.client.host if request.client is not None else ""
        wait = tries.wait(source)
        if wait is not None:
            words = f"too many wrong tokens came from {source}"
            return not_yet(request, TOO_MANY, words, f"Wait {show_duration(wait)}, or sign in another way.")
        try:
            user, good_for = holder_of(house, fields.get("token", "").strip())
        except NotSignedIn as error:
            tries.wrong(source)
            return not_yet(request, NOT_KNOWN, error.detail, "Paste it whole, as it was shown; or ask an admin for a new one.")
        return await signed_in(house.registry, user.name, context.url, next_of(request), good_for)

    def not_yet(request: Request, status: int, detail: str, next_step: str) -> Response:
        return how_to_sign_in(context, request, status, _("You are not signed in."), trouble=Trouble("token", detail, next_step))


def holder_of(house: House, text: str) -> tuple[User, timedelta]:
    """Whose it is, and how long their browser may be trusted: no longer than the token itself."""
    caller = house.registry.caller(text)
    if caller.scope != "full" or caller.token_id is None:
        raise NotSignedIn("this token is not one that signs a person in")
    ends = house.registry.token(caller.token_id).expires_at
    return caller.user, PAGE_GOOD_FOR if ends is None else min(PAGE_GOOD_FOR, ends - house.clock())


def add_by_oidc(router: APIRouter, context: PageContext) -> None:
    house, secure = context.house, context.url.startswith("https:")

    def service() -> Oidc:
        if context.oidc is None:
            raise NoSuchThing("nobody signs in by OpenID Connect here", "An admin can set [oidc] in fairy.toml.")
        return context.oidc

    @router.get(OIDC_PATH)
    async def begin(request: Request) -> Response:
        if only_looks_ahead(request):
            return Response(status_code=503, headers={"Cache-Control": "no-store"})
        try:
            begun = await service().begin()
        except FairyError as error:
            return refused(request, error)
        answer = RedirectResponse(begun.url, SEE_OTHER, {"Cache-Control": "no-store"})
        # Lax: the browser comes back from another site, and must bring it along.
        answer.set_cookie(OIDC_COOKIE, begun.state, max_age=600, path=OIDC_PATH, secure=secure, httponly=True, samesite="lax")
        return answer

    @router.get(f"{OIDC_PATH}/back")
    async def back(request: Request, code: str = "", state: str = "", error: str = "") -> Response:
        try:
            oidc = service()
            claimed = await oidc.finish(code=code, state=state, of_browser=request.cookies.get(OIDC_COOKIE, ""), error=error)
            user = await user_named(house, claimed, add=oidc.settings.add_users)
        except FairyError as refusal:
            return refused(request, refusal)
        answer = await signed_in(house.registry, user, context.url, next_of(request))
        answer.delete_cookie(OIDC_COOKIE, path=OIDC_PATH)
        return answer

    def refused(request: Request, error: FairyError) -> Response:
        status, _title = context.status_and_title(error)
        trouble = Trouble("oidc", error.detail, error.next_step)
        return how_to_sign_in(context, request, status, _("You are not signed in."), trouble=trouble)


async def user_named(house: House, claimed: str, *, add: bool) -> str:
    name = user_name(claimed.lower())
    known = {user.name: user for user in house.registry.users()}
    if name not in known and not add:
        raise NotAllowed(f"there is no user {name} here", "Ask an admin to add you; then sign in again.")
    if name in known and known[name].disabled:
        raise NotAllowed(f"{name} is shut out", "Ask an admin.")
    return (await house.registry.ensure_user(name)).name


def next_of(request: Request) -> str:
    return on_this_site(request.cookies.get(NEXT_COOKIE, "/"))
