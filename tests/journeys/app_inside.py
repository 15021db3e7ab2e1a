"""An app that a session runs: who it is, what it is sent, and an echo over a WebSocket."""
import os
import sys

from aiohttp import web


async def who(request: web.Request) -> web.Response:
    return web.json_response({"session": os.environ["FAIRY_SESSION"], "cookie": request.headers.get("Cookie"), "host": request.host})


async def echo(request: web.Request) -> web.WebSocketResponse:
    ours = web.WebSocketResponse()
    await ours.prepare(request)
    async for message in ours:
        await ours.send_str(f"{message.data}, said {os.environ['FAIRY_SESSION']}")
    return ours


app = web.Application()
app.add_routes([web.get("/who", who), web.get("/echo", echo)])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
