"""Every route of the application, pages and sockets among them, has its row in the policy; and the guard stands before each."""
from pathlib import Path

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from house_scene import a_house
from starlette.routing import BaseRoute

from gpufairy.api.app import make_app
from gpufairy.api.context import Context
from gpufairy.api.policy import POLICY, WEBSOCKET
from gpufairy.api.problems import status_and_title
from gpufairy.control.links import SignInLinks
from gpufairy.web import routes as pages
from gpufairy.web.context import PageContext


def whole_app(house) -> FastAPI:
    links = SignInLinks(house.clock)
    context = Context(house, links, "http://server:8420")
    app = make_app(context)
    app.include_router(pages.routes(PageContext(house, links, context.url, "fairy", status_and_title)))
    return app


def rows_of(routes: list[BaseRoute]) -> set[tuple[str, str]]:
    found = set()
    for route in routes:
        if isinstance(route, APIWebSocketRoute):
            found.add((WEBSOCKET, route.path))
        elif isinstance(route, APIRoute):
            found |= {(method, route.path) for method in route.methods if method != "HEAD"}
        else:
            found |= rows_of(list(inner_routes(route)))
    return found


def inner_routes(route: BaseRoute):
    """Of a router that was included whole. Anything else would be a way in that nobody guards."""
    inner = getattr(route, "original_router", None) or getattr(route, "app", None)
    assert hasattr(inner, "routes"), f"{route!r} is no route that the guard stands before"
    return inner.routes


async def test_every_route_and_socket_has_a_row_and_every_row_has_one(tmp_path: Path):
    async with a_house(tmp_path) as scene:
        found = rows_of(whole_app(scene.house).routes)
    assert found == set(POLICY)
    assert any(method == WEBSOCKET for method, _ in found)


async def first_word(app: FastAPI, path: str, headers: dict[str, str]) -> dict[str, object]:
    """What is answered to somebody who asks for a socket."""
    said = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        said.append(message)

    sent = [(name.lower().encode(), value.encode()) for name, value in {"Host": "server:8420", **headers}.items()]
    scope = {
        "type": "websocket", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "ws", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "headers": sent, "client": ("127.0.0.1", 1), "server": ("server", 8420), "subprotocols": [],
        "state": {}, "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    await app(scope, receive, send)
    return said[0]


async def test_every_socket_is_refused_without_a_token_before_it_is_accepted(tmp_path: Path):
    own = {"Cookie": "fairy_page=x", "Origin": "http://server:8420"}
    async with a_house(tmp_path) as scene:
        app = whole_app(scene.house)
        for path in [path for method, path in POLICY if method == WEBSOCKET]:
            for headers, status in (({}, 403), ({"Authorization": "Bearer fairy_wrong"}, 401), (own, 401), ({**own, "Origin": "http://evil"}, 403)):
                answer = await first_word(app, path.format(name="x"), headers)
                assert (answer["type"], answer["status"]) == ("websocket.http.response.start", status)
