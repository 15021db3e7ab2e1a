"""Routes of people: me, users, tokens, SSH keys."""
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import key_shape, token_shape, user_shape
from gpufairy.control import govern
from gpufairy.control.registry import Caller
from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import NoSuchThing, NotAllowed
from gpufairy.core.people import Role
from gpufairy.wire.people import KeyBody, TokenBody, UserBody, UserChangeBody, read_scope
from gpufairy.wire.read import read


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["people"])
    add_user_routes(router, context)
    add_token_routes(router, context)
    add_key_routes(router, context)
    return router


def add_user_routes(router: APIRouter, context: Context) -> None:
    registry = context.house.registry

    @router.get("/me")
    async def me(request: Request) -> dict[str, Any]:
        """Who you are here, what your token is good for, and on which machine you were answered (null: not known)."""
        caller = caller_of(request)
        role = Role.ADMIN if caller.is_admin else Role.USER  # from inside a session nobody is admin
        token = {"scope": caller.scope, "id": caller.token_id, "session": caller.session_id}
        ssh = {} if context.ssh is None else {"ssh_port": context.ssh.port, "ssh_host_key": context.ssh.host_key}
        by_ssh = {"ssh_port": None, "ssh_host_key": None, **ssh}
        return {**user_shape(caller.user), "role": role, "token": token, "machine": context.machine, **by_ssh}

    @router.post("/signin-links", status_code=201)
    async def sign_in_link(request: Request) -> JSONResponse:
        """A link that signs you in to the page, once, within an hour."""
        code = context.links.make(caller_of(request).user.name)
        return JSONResponse({"url": f"{context.url}/signin?code={code}"}, 201)

    @router.get("/users")
    async def users() -> dict[str, Any]:
        """Everybody."""
        return {"items": [user_shape(user) for user in registry.users()], "next": None}

    @router.post("/users", status_code=201)
    async def add_user(request: Request) -> JSONResponse:
        """Let somebody in. They need a token (POST /tokens) or an SSH key (POST /keys) next."""
        body = read(UserBody, await json_body(request), "user")
        return JSONResponse(user_shape(await govern.add_user(context.house, caller_of(request).user.name, body)), 201)

    @router.get("/users/{name}")
    async def user(request: Request, name: str) -> dict[str, Any]:
        """Yourself; admins see anybody."""
        return user_shape(registry.user(meant(caller_of(request), name)))

    @router.patch("/users/{name}")
    async def change_user(request: Request, name: str) -> dict[str, Any]:
        """Change role, team or share, or shut somebody out (`disabled`); their tokens stop working at once."""
        body = read(UserChangeBody, await json_body(request), "user")
        return user_shape(await govern.change_user(context.house, caller_of(request).user.name, name, body))


def add_token_routes(router: APIRouter, context: Context) -> None:
    registry = context.house.registry

    @router.get("/tokens")
    async def tokens(request: Request, user: str | None = None) -> dict[str, Any]:
        """Your tokens, without their secret part."""
        return {"items": [token_shape(token) for token in registry.tokens(meant(caller_of(request), user))], "next": None}

    @router.post("/tokens", status_code=201)
    async def create_token(request: Request) -> JSONResponse:
        """A new token. Its text is in this answer and nowhere else."""
        body, caller = read(TokenBody, await json_body(request), "token"), caller_of(request)
        expires = None if body.expires is None else parse_duration(body.expires, "expires")
        user, scope = meant(caller, body.user), read_scope(body.scope)
        token, text = await govern.create_token(
            context.house, caller.user.name, user, named=body.label, scope=scope, expires=expires
        )
        return JSONResponse({**token_shape(token), "token": text}, 201)

    @router.delete("/tokens/{token_id}", status_code=204)
    async def revoke_token(request: Request, token_id: str) -> Response:
        """It stops working at once."""
        caller = caller_of(request)
        if registry.token(token_id).user != caller.user.name and not caller.is_admin:
            raise NoSuchThing(f"no token {token_id[:40]!r}", "See `fairy token list`.")
        await govern.revoke_token(context.house, caller.user.name, token_id)
        return Response(status_code=204)


def add_key_routes(router: APIRouter, context: Context) -> None:
    keyring = context.house.keyring

    @router.get("/keys")
    async def keys(request: Request, user: str | None = None) -> dict[str, Any]:
        """Your SSH keys."""
        return {"items": [key_shape(key) for key in keyring.of(meant(caller_of(request), user))], "next": None}

    @router.post("/keys", status_code=201)
    async def add_key(request: Request) -> JSONResponse:
        """Add a public SSH key."""
        body, caller = read(KeyBody, await json_body(request), "key"), caller_of(request)
        key = await govern.add_key(context.house, caller.user.name, meant(caller, body.user), body.key)
        return JSONResponse(key_shape(key), 201)

    @router.delete("/keys/{fingerprint:path}", status_code=204)
    async def remove_key(request: Request, fingerprint: str, user: str | None = None) -> Response:
        """Take a key away."""
        caller = caller_of(request)
        await govern.remove_key(context.house, caller.user.name, meant(caller, user), fingerprint)
        return Response(status_code=204)


def meant(caller: Caller, user: str | None) -> str:
    """Whose things: one's own, or for admins the named user's."""
    if user is None or user == caller.user.name:
        return caller.user.name
    if not caller.is_admin:
        raise NotAllowed(f"{user[:40]!r} is not you, and you are no admin", "Leave the name out.")
    return user
