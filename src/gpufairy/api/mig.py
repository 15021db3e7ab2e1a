"""Routes of MIG: how GPUs are cut and who holds which instance, what a change would cost, and changing it."""
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request

from gpufairy.api.context import Context
from gpufairy.api.door import caller_of, json_body
from gpufairy.api.policy import API
from gpufairy.api.shapes import moment
from gpufairy.control.find import may_see_of
from gpufairy.control.mig import Applied, Cutter
from gpufairy.control.mig_looks import CutView
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.holders import Holder
from gpufairy.core.mig import MigInstance, MigProfile
from gpufairy.core.mig_offer import Offer, offers
from gpufairy.core.mig_plain import place_to_plain, plan_to_plain
from gpufairy.core.steps import Event
from gpufairy.wire.mig import AutoBody, CutBody
from gpufairy.wire.read import read

CHANGES_SHOWN = 5  # of each GPU, the latest
CHANGES_READ = 500  # of all GPUs together


def routes(context: Context) -> APIRouter:
    router, house = APIRouter(prefix=API, tags=["mig"]), context.house

    def cutter() -> Cutter:
        if context.cutter is None:
            raise NoSuchThing("this server cuts no GPUs by MIG", "On Kubernetes NVIDIA's MIG manager does that.")
        return context.cutter

    @router.get("/mig")
    async def show(request: Request) -> dict[str, Any]:
        """Every GPU that MIG can cut: how it is cut, who holds which instance since when, what still fits, and how the cut changed."""
        changes: dict[str, list[Event]] = {}
        for event in await house.store.events.page(owner="", limit=CHANGES_READ, newest=True):
            changes.setdefault(event.session_id, []).append(event)
        shown, views = partial(may_see_of, caller_of(request)), context.cutter.views() if context.cutter is not None else []
        return {"items": [view_shape(view, shown, changes.get(view.gpu.uuid, [])[-CHANGES_SHOWN:]) for view in views], "next": None}

    @router.post("/mig/plan")
    async def plan(request: Request) -> dict[str, Any]:
        """Where the wanted profiles would go (`{"gpu": "GPU-…", "want": ["3g.20gb"]}`), and which idle instances would go for them."""
        body = read(CutBody, await json_body(request), "plan")
        return plan_to_plain(await cutter().plan(body.gpu, body.want))

    @router.post("/mig/apply")
    async def apply(request: Request) -> dict[str, Any]:
        """Cut the GPU so. Sent twice it is done once. What is in use is never touched; what fails is undone."""
        body = read(CutBody, await json_body(request), "apply")
        return applied_shape(await cutter().apply(body.gpu, body.want, caller_of(request).user.name))

    @router.post("/mig/auto")
    async def auto(request: Request) -> dict[str, Any]:
        """Let the cut of these GPUs follow what waits in the queue, or no longer."""
        body = read(AutoBody, await json_body(request), "auto")
        await cutter().set_auto(body.gpus, body.on)
        return {"gpus": body.gpus, "on": body.on}

    return router


def applied_shape(applied: Applied) -> dict[str, Any]:
    return {
        **plan_to_plain(applied.plan),
        "changed": applied.changed,
        "simulated": applied.simulated,
        "before": [instance_shape(one) for one in applied.before],
        "after": [instance_shape(one) for one in applied.after],
        "note": applied.note or None,
    }


def view_shape(view: CutView, names_shown: Callable[[str], bool], changes: Sequence[Event]) -> dict[str, Any]:
    gpu, table = view.gpu, view.table
    held = {holder.gpu.start: holder for holder in view.holders if holder.gpu.profile}
    return {
        "node": view.node, "index": gpu.index, "uuid": gpu.uuid, "kind": gpu.kind, "simulated": gpu.simulated,
        "mig": view.mode, "on_demand": view.mode and gpu.instances is None, "auto": view.auto, "cutting": view.cutting,
        "compute_slices": table.compute_slices, "memory_slices": table.memory_slices,
        "instances": [
            {**instance_shape(one), "in_use": one.start in view.now.in_use, "holder": held_shape(held.get(one.start), names_shown)}
            for one in sorted(view.now.instances, key=lambda one: (one.start, one.uuid))
        ],
        "offers": [offer_shape(offer) for offer in offers(view.now)] if view.mode else [],
        "held": [] if view.mode else [held_shape(holder, names_shown) for holder in view.holders],
        "profiles": [profile_shape(one) for one in table.profiles],
        "changes": [{"at": moment(one.at), "what": one.what, "why": one.why, "actor": one.actor or None} for one in reversed(changes)],
    }  # fmt: skip


def instance_shape(one: MigInstance) -> dict[str, Any]:
    return {**place_to_plain(one), "uuid": one.uuid or None}


def profile_shape(one: MigProfile) -> dict[str, Any]:
    slices = {"compute_slices": one.compute_slices, "size": one.size}
    return {"name": one.name, **slices, "starts": list(one.starts), "memory_bytes": one.memory_bytes}


def held_shape(holder: Holder | None, names_shown: Callable[[str], bool]) -> dict[str, Any] | None:
    """Who holds an instance is everybody's business; what they call their work is not."""
    if holder is None:
        return None
    name = holder.session if names_shown(holder.owner) else None
    return {"session": name, "owner": holder.owner, "since": moment(holder.since)}


def offer_shape(offer: Offer) -> dict[str, Any]:
    return {"profile": offer.profile, "free": offer.free, "fits": offer.fits, "touched": offer.touched, "why": offer.why or None}
