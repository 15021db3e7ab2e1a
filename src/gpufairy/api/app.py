"""The API as one application: routes, the guard before them, errors as problems."""
import asyncio
import json
from functools import cache

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gpufairy import __version__
from gpufairy.api import (
    accounting,
    advice,
    agents,
    alerts,
    apps,
    backups,
    bookings,
    changes,
    classes,
    cluster,
    disk,
    doctor,
    gateway,
    health,
    images,
    leaks,
    ledger,
    maintenance,
    mig,
    moving,
    people,
    pools,
    readings,
    selftests,
    sessions,
    shares,
    stops,
    teams,
    terminal,
)
from gpufairy.api.context import Context
from gpufairy.api.description import DescribedApp
from gpufairy.api.docs_page import docs_page
from gpufairy.api.door import BodyLimit, StreamPlaces, guard
from gpufairy.api.policy import API
from gpufairy.api.problems import on_fairy_error, on_fault, on_http_error, problem
from gpufairy.core.amounts import shown
from gpufairy.core.errors import FairyError


def make_app(context: Context) -> FastAPI:
    app = DescribedApp(
        title="gpufairy", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        dependencies=[Depends(guard(context.house.registry, context.url))],
    )  # fmt: skip
    app.include_router(health.routes(context))
    for part in (
        sessions, changes, apps, terminal, stops, images, cluster, shares, pools, bookings, mig, selftests,
        readings, ledger, advice, agents, people, teams, classes, accounting, disk,
        gateway, alerts, leaks, maintenance, backups, doctor, moving,
    ):  # fmt: skip
        app.include_router(part.routes(context))
    add_docs(app)
    app.add_exception_handler(FairyError, on_fairy_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(RequestValidationError, on_bad_query)
    app.add_exception_handler(Exception, on_fault)
    app.add_middleware(StreamPlaces)
    app.add_middleware(BodyLimit, refusals=context.house.refusals)
    return app


async def on_bad_query(request: Request, error: Exception) -> Response:
    """A path or query parameter that is not what it should be."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    found = shown(str(fault.get("input")))
    return problem(400, "Not understood", f"{fault['loc'][-1]}: {fault['msg'].lower()}, found {found}", "See /docs for what it takes.")


def add_docs(app: FastAPI) -> None:
    """Both are made once, in a thread of their own: a third of a second is long for whoever types in a terminal meanwhile."""

    @cache
    def for_machines() -> bytes:
        return json.dumps(app.openapi(), ensure_ascii=False).encode()

    @cache
    def for_people() -> str:
        return docs_page(app.openapi())

    @app.get(f"{API}/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(await asyncio.to_thread(for_machines), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        """All routes on one page, readable without a script."""
        return HTMLResponse(await asyncio.to_thread(for_people))
