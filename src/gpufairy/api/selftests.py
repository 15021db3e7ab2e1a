"""Routes of self-tests: what was found to hold on each GPU, and testing it now."""
import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.selftest import Found, News, NotTested
from gpufairy.core.errors import Conflict, FairyError
from gpufairy.core.isolation import WHATS, overall
from gpufairy.core.sharing import IsolationTest
from gpufairy.wire.read import read
from gpufairy.wire.selftests import IsolationBody


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    @router.get("/selftests/isolation")
    async def results() -> dict[str, Any]:
        """What the last test of each GPU, in each way of sharing it, found enforced."""
        return {"items": [test_shape(test) for test in house.shares.tests()], "next": None}

    @router.post("/selftests/isolation")
    async def begin(request: Request) -> StreamingResponse:
        """Test one GPU (`{"gpu": "GPU-…"}`) or every real one (`{}`). A line of JSON for each step; the last says `done` or `error`."""
        body = read(IsolationBody, await json_body(request), "isolation")
        if context.selftest is None:
            raise Conflict("there is no self-test on this server", "Start it with `fairy up`.")
        news: asyncio.Queue[News | None] = asyncio.Queue()
        task = context.selftest.begin(caller_of(request).user, None if body.gpu is None else [body.gpu], news.put_nowait)
        task.add_done_callback(lambda _: news.put_nowait(None))
        return StreamingResponse(told(news, task), media_type="application/x-ndjson")

    return router


async def told(news: "asyncio.Queue[News | None]", task: "asyncio.Task[list[Found]]") -> AsyncIterator[str]:
    """The answer has begun, so an error is one more line."""
    while (told_now := await news.get()) is not None:
        yield json.dumps(news_shape(told_now)) + "\n"
    error = None if task.cancelled() else task.exception()
    if task.cancelled():
        yield json.dumps({"error": "the server is leaving", "next": "Run it again when it is back."}) + "\n"
    elif isinstance(error, FairyError):
        yield json.dumps({"error": error.detail, "next": error.next_step}) + "\n"
    elif error is not None:
        yield json.dumps({"error": f"the self-test failed: {error}", "next": "See the server's log."}) + "\n"
    else:
        yield json.dumps({"done": True}) + "\n"


def news_shape(news: News) -> dict[str, Any]:
    if isinstance(news, IsolationTest):
        return {"test": test_shape(news)}
    if isinstance(news, NotTested):
        return {"untested": {"node": news.node, "gpu": news.gpu, "why": news.why}}
    return {"words": news}


def test_shape(test: IsolationTest) -> dict[str, Any]:
    return {
        "node": test.node, "gpu": test.gpu, "sharing": test.sharing, "at": moment(test.at), "driver": test.driver,
        **{what: overall(test, what) for what in WHATS},
        "attempts": [{"way": one.way, "of": one.of, "verdict": one.verdict, "found": one.found} for one in test.attempts],
    }  # fmt: skip
