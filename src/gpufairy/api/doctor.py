"""Routes of the doctor: what is wrong with the server's own host, and what mends it."""
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.doctor import Checkup, Doctor, look_for
from gpufairy.core.doctor_shape import finding_shape
from gpufairy.core.errors import Conflict, NoSuchThing


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["cluster"]), context.house

    def the_doctor() -> Doctor:
        if context.doctor is None:
            raise Conflict("there is no doctor on this server", "Start it with `fairy up`.")
        return context.doctor

    @router.get("/doctor")
    async def found(last: bool = False) -> dict[str, Any]:
        """What is wrong with the server's own host, as of the last minute. Who is first to ask waits some seconds for it.
        With `last` nobody looks: what was found when somebody last did, by night or when asked."""
        if not last:
            return checkup_shape(await the_doctor().checkup())
        if (kept := the_doctor().last) is None:
            raise NoSuchThing("the doctor has not looked yet", "Ask for a look now: fairy doctor.")
        return checkup_shape(kept)

    @router.post("/doctor")
    async def anew(request: Request) -> dict[str, Any]:
        """Look at the server's own host now. It takes some seconds; nothing is changed."""
        return checkup_shape(await look_for(house, the_doctor(), caller_of(request).user.name))

    return router


def checkup_shape(checkup: Checkup) -> dict[str, Any]:
    return {"at": moment(checkup.at), "items": [finding_shape(one) for one in checkup.findings], "next": None}
