"""Routes of advice: what a session's readings say about how it uses what it holds; and the summary of one that is over."""
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of
from gpufairy.api.policy import API
from gpufairy.api.readings import HOUR_S
from gpufairy.api.shapes import number
from gpufairy.control.advise import advice_on, adviser
from gpufairy.control.find import find_session
from gpufairy.control.registry import Caller
from gpufairy.control.session_summary import summary_of
from gpufairy.core.errors import NotAllowed
from gpufairy.core.insight import Advice
from gpufairy.core.lifecycle import Phase
from gpufairy.core.session import Session
from gpufairy.core.session_summary import Summary, lines


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["readings"]), context.house

    @router.get("/advice")
    async def advice(
        request: Request,
        session: str | None = Query(None, max_length=200, description="of this one alone, which may be over"),
        user: str | None = Query(None, max_length=200, description="admins: of this user's sessions"),
        all_users: bool = Query(False, description="admins: of everybody's"),
    ) -> dict[str, Any]:
        """What to improve, with figures, in words: of your sessions that run; what would save the most first."""
        caller = caller_of(request)
        if session is not None:
            one = await find_session(house, caller, session)
            found = [(one, await advice_on(house, one))]
        else:
            found = await adviser(house, whose(caller, user, all_users))
        items = [{**advice_shape(said), **named(of_it)} for of_it, told in found for said in told]
        items.sort(key=lambda item: -item["saves_gpus"])
        return {"items": items, "looked_at": len(found), "next": None}

    @router.get("/sessions/{name}/summary")
    async def summary(request: Request, name: str) -> dict[str, Any]:
        """Of one that is over: what it held, used, took of energy, and what would have sufficed. `summary` is null for any other."""
        one = await find_session(house, caller_of(request), name)
        made = await summary_of(house, one) if one.phase is Phase.ENDED else None
        return {**named(one), "summary": None if made is None else summary_shape(made)}

    return router


def whose(caller: Caller, user: str | None, all_users: bool) -> str | None:
    """None: everybody's."""
    asked = None if all_users and user is None else user or caller.user.name
    if asked != caller.user.name and not caller.is_admin:
        raise NotAllowed("advice on others' sessions is shown to admins alone", "Leave out user and all_users.")
    return asked


def named(session: Session) -> dict[str, Any]:
    simulated = session.seat is not None and any(gpu.simulated for gpu in session.seat.gpus)
    return {"session": session.name, "id": session.id, "owner": session.owner, "state": session.state, "simulated": simulated}


def advice_shape(said: Advice) -> dict[str, Any]:
    return {
        "code": said.code, "sentence": said.sentence, "next": said.next_step, "confidence": said.confidence,
        "evidence": [asdict(one) for one in said.evidence], "window_s": number(said.window.total_seconds()),
        "saves_gpus": said.saves_gpus,
    }  # fmt: skip


def summary_shape(made: Summary) -> dict[str, Any]:
    told: Sequence[str] = lines(made)
    return {
        "ran_s": number(made.ran.total_seconds()), "held_gpu_hours": number(round(made.held_s / HOUR_S, 4)),
        "used_gpu_hours": None if made.used_s is None else number(round(made.used_s / HOUR_S, 4)),
        "energy_j": None if made.energy_j is None else number(round(made.energy_j)),
        "cost": None if made.cost is None else asdict(made.cost), "given": asdict(made.given), "peaks": asdict(made.peaks),
        "sufficed": asdict(made.sufficed), "lines": list(told),
    }  # fmt: skip
