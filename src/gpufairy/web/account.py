"""My account: how I sign in. My SSH keys, my tokens and browsers, and signing out everywhere."""
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern
from gpufairy.control.house import House
from gpufairy.control.links import PAGE_COOKIE
from gpufairy.control.registry import PAGE_SCOPE
from gpufairy.core.errors import FairyError, NoSuchThing
from gpufairy.core.people import Role, Token
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, caller_of, fields_of, no_such_deed
from gpufairy.web.hosts import host_of
from gpufairy.web.messages_form import MESSAGE_DEEDS, change_messages, messages_of
from gpufairy.web.pages import show
from gpufairy.web.sign_in import to_page
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import clock_words


@dataclass(frozen=True, slots=True)
class TokenRow:
    id: str
    label: str
    what: str
    made: str
    until: str
    mine_now: bool = False  # of the browser that asks


@dataclass(frozen=True, slots=True)
class KeyRow:
    fingerprint: str
    kind: str
    comment: str
    added: str


def add_account(router: APIRouter, context: PageContext) -> None:
    house = context.house

    def page(request: Request, trouble: Trouble | None = None) -> Response:
        caller = caller_of(request)
        name, status = caller.user.name, 200 if trouble is None else trouble.status
        tokens, keys = token_rows(house, name, caller.token_id), key_rows(house, name)
        return show(
            "account.html", status, user=name, is_admin=caller.user.role is Role.ADMIN, answer=answer(name, len(tokens), len(keys)),
            tokens=tokens, keys=keys, messages=messages_of(context.desk, name), trouble=trouble,
            ssh_port=context.ssh_port, host=host_of(request, context.url),
        )  # fmt: skip

    @router.get("/account")
    async def account(request: Request) -> Response:
        return page(request)

    @router.post("/account/{deed}")
    async def change(request: Request, deed: str) -> Response:
        caller, fields = acting(request), await fields_of(request, context.url)
        try:
            if deed in MESSAGE_DEEDS:
                await change_messages(context.desk, caller.user.name, deed, fields)
            else:
                await change_own(house, caller.user.name, deed, fields)
        except FairyError as error:
            status, _title = context.status_and_title(error)
            return page(request, Trouble(deed, error.detail, error.next_step, fields, status))
        return to_page("/account")

    @router.post("/signout/everywhere")
    async def sign_out_everywhere(request: Request) -> Response:
        await fields_of(request, context.url)
        user = caller_of(request).user.name
        await govern.sign_out_everywhere(house, user, user)
        answer = to_page("/")
        answer.delete_cookie(PAGE_COOKIE, path="/", httponly=True, samesite="strict")
        return answer


async def change_own(house: House, user: str, deed: str, fields: dict[str, str]) -> None:
    match deed:
        case "add-key":
            await govern.add_key(house, user, user, fields.get("key", ""))
        case "remove-key":
            await govern.remove_key(house, user, user, fields.get("key", ""))
        case "revoke":
            token = house.registry.token(fields.get("token", "")[:40])
            if token.user != user:
                raise NoSuchThing(f"no token {token.id!r} of yours", "Load the page again.")
            await govern.revoke_token(house, user, token.id)
        case _:
            raise no_such_deed(deed)


def answer(name: str, tokens: int, keys: int) -> str:
    key_words = ngettext("{count} SSH key", "{count} SSH keys", keys).format(count=keys) if keys else _("no SSH key yet")
    ways = ngettext("{count} browser or token", "{count} browsers and tokens", tokens).format(count=tokens)
    return _("You are {name}, with {keys} and {ways}.").format(name=name, keys=key_words, ways=ways)


def token_rows(house: House, user: str, mine: str | None = None) -> tuple[TokenRow, ...]:
    good, now = house.registry.good_tokens(), house.clock()
    tokens = sorted((token for token in house.registry.tokens(user) if token.id in good), key=lambda token: token.created_at, reverse=True)
    return tuple(
        TokenRow(
            token.id, token.label, scope_words(token), clock_words(token.created_at, now),
            _("it is revoked") if token.expires_at is None else clock_words(token.expires_at, now), token.id == mine,
        )
        for token in tokens
    )  # fmt: skip


def scope_words(token: Token) -> str:
    if token.scope == PAGE_SCOPE:
        return _("a browser")
    return _("metrics alone") if token.scope == "metrics" else _("command line and API")


def key_rows(house: House, user: str) -> tuple[KeyRow, ...]:
    now = house.clock()
    return tuple(
        KeyRow(key.fingerprint, key.text.split()[0], key.comment, clock_words(key.added_at, now)) for key in house.keyring.of(user)
    )
