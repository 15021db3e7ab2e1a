"""The route of leaks: what is held and nobody has, and what was put right."""
from typing import Any

from fastapi import APIRouter

from gpufairy.api.context import Context
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.janitor import Janitor
from gpufairy.core.errors import Conflict
from gpufairy.core.leaks import LOOKS, Sighting
from gpufairy.core.steps import Event


def routes(context: Context) -> APIRouter:
    router = APIRouter(prefix=API, tags=["cluster"])

    @router.get("/leaks")
    async def leaks() -> dict[str, Any]:
        """What the last look found to be held by nobody, how sure that is, and what was mended of late."""
        report = await janitor_of(context).report()
        return {
            "items": [leak_shape(one) for one in report.sightings], "next": None, "mended": [mended_shape(one) for one in report.mended],
            "looked_at": moment(report.looked_at), "engine_answers": report.engine_answers, "repair": report.repair,
        }  # fmt: skip

    return router


def janitor_of(context: Context) -> Janitor:
    if context.janitor is None:
        raise Conflict("this server looks for no leaks", "Start it with `fairy up`.")
    return context.janitor


def leak_shape(one: Sighting) -> dict[str, Any]:
    return {
        "kind": one.sign.kind, "thing": one.sign.thing, "node": one.sign.node or None, "sentence": one.sign.sentence, "todo": one.sign.todo,
        "since": moment(one.since), "seen_at": moment(one.seen_at), "looks": one.looks, "looks_needed": LOOKS, "sure": one.sure,
        "mending_since": moment(one.mending_since),
    }  # fmt: skip


def mended_shape(event: Event) -> dict[str, Any]:
    return {"at": moment(event.at), "about": event.name, "what": event.why}
