"""Forms: what a page of ours sends when somebody changes something. That it was our page is checked before anything is read."""
from urllib.parse import parse_qsl

from starlette.requests import Request

from gpufairy.control.registry import Caller
from gpufairy.core.errors import BadInput
from gpufairy.core.people import Role, User
from gpufairy.web.sign_in import check_same_origin

MOST_FIELDS = 500


async def fields_of(request: Request, url: str) -> dict[str, str]:
    """Of a name that comes twice the last; `all_of` has them all."""
    return dict(await pairs_of(request, url))


async def pairs_of(request: Request, url: str) -> list[tuple[str, str]]:
    check_same_origin(request, url)
    try:
        return parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise BadInput(f"the form cannot be read: {error}", "Load the page again and try once more.") from None


def caller_of(request: Request) -> Caller:
    """Left there by the guard that stands before every route."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return caller


def acting(request: Request) -> Caller:
    """As whom a page acts that was checked to be ours: what its user may do, they may do here."""
    caller = caller_of(request)
    return Caller(caller.user, "full", caller.token_id)


def admin_of(request: Request) -> User:
    """The guard lets admins alone in: every route below /admin has that row in the policy."""
    user = caller_of(request).user
    assert user.role is Role.ADMIN
    return user


def on_this_site(path: str) -> str:
    """A place to go back to: never another site."""
    plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if plain and path.startswith("/") and not path.startswith("//") else "/"


def no_such_deed(deed: str) -> BadInput:
    return BadInput(f"nothing here is called {deed[:40]!r}", "Use the buttons of the page.")
