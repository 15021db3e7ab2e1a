"""Admin: MIG. Every cut drawn, a plan with what it would touch, applied only as it was seen, and automatic mode."""
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.audit import note
from gpufairy.control.mig import WHOLE, Cutter
from gpufairy.control.mig_looks import CutView
from gpufairy.core.errors import Conflict, FairyError, NoSuchThing
from gpufairy.core.mig import MigInstance
from gpufairy.core.mig_offer import offers
from gpufairy.core.mig_plan import CutPlan, parse_wanted
from gpufairy.web.admin import Fields, add_page, show_admin
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.told_here import told_here
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import hue_of


@dataclass(frozen=True, slots=True)
class CutPiece:
    """Places and widths are hundredths of the GPU's memory slices."""

    left: float
    width: float
    label: str
    said: str
    look: str  # held, idle, made or gone: each a class of look.css
    hue: str = ""


@dataclass(frozen=True, slots=True)
class CutBar:
    said: str
    pieces: tuple[CutPiece, ...]


@dataclass(frozen=True, slots=True)
class CutRow:
    uuid: str
    name: str
    kind: str
    simulated: bool
    mode: str
    auto: bool
    cutting: bool
    bar: CutBar
    fits: tuple[str, ...]  # profiles that could be cut now beside what is there
    href: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan would do, before anybody says yes."""

    want: str
    fits: bool
    answer: str
    before: CutBar
    after: CutBar
    made: tuple[str, ...]
    gone: tuple[str, ...]
    kept: tuple[str, ...]
    changes: bool
    touched: str  # so that what is applied is what was seen


def add_mig(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        views = [] if context.cutter is None else context.cutter.views()
        asked = trouble.typed if trouble is not None else request.query_params
        view = next((one for one in views if one.gpu.uuid == asked.get("gpu", "")), None)
        want, preview = asked.get("want", "")[:500], None
        if view is not None and want and trouble is None:
            try:
                preview = preview_of(view, want, await a_cutter(context).plan(view.gpu.uuid, wanted(want)))
            except FairyError as error:
                trouble = Trouble("plan", error.detail, error.next_step, dict(asked), context.status_and_title(error)[0])
        rows = [cut_row(one) for one in views]
        chosen = None if view is None else cut_row(view)
        profiles = [] if view is None else [one.name for one in view.table.profiles]
        return show_admin(
            request, "mig", trouble, refresh_s=None if chosen else LOOK_AGAIN_S, answer=answer(rows), rows=rows, chosen=chosen, want=want,
            preview=preview, profiles=profiles,
        )  # fmt: skip

    async def change(admin: str, deed: str, fields: Fields) -> str:
        gpu = fields.get("gpu", "")
        if deed == "apply":
            await apply_seen(a_cutter(context), gpu, fields, admin)
        elif deed in ("auto", "fixed"):
            await a_cutter(context).set_auto([gpu], deed == "auto")
            await note(house, admin, f"mig:{gpu}", f"mig_{deed}", "its cut follows the queue" if deed == "auto" else "its cut stays")
        else:
            raise no_such_deed(deed)
        return f"/admin/mig?{urlencode({'gpu': gpu})}"

    add_page(router, context, "/admin/mig", page, change)


def a_cutter(context: PageContext) -> Cutter:
    if context.cutter is None:
        raise NoSuchThing("this server cuts no GPUs by MIG", "On Kubernetes NVIDIA's MIG manager does that.")
    return context.cutter


async def apply_seen(cutter: Cutter, gpu: str, fields: Fields, admin: str) -> None:
    """What goes is what the preview showed: if the GPU was cut or taken meanwhile, whoever clicked said yes to something else."""
    want = wanted(fields.get("want", ""))
    plan = await cutter.plan(gpu, want)
    if places(plan.touched) != fields.get("touched", ""):
        raise Conflict("the GPU has changed since the preview: other instances would go now", "Look at the new preview, and apply that.")
    await cutter.apply(gpu, want, admin)


def wanted(text: str) -> tuple[str, ...]:
    return (WHOLE,) if text.strip().lower() == WHOLE else parse_wanted(text, _("wanted"))


def places(instances: Iterable[MigInstance]) -> str:
    return ",".join(sorted(f"{one.profile}@{one.start}" for one in instances))


def answer(rows: Sequence[CutRow]) -> str:
    if not rows:
        return _("No GPU here can be cut by MIG.")
    cut = sum(bool(row.bar.pieces) or row.mode == _("in MIG mode") for row in rows)
    there = ngettext("{count} GPU can be cut by MIG", "{count} GPUs can be cut by MIG", len(rows)).format(count=len(rows))
    return _("{there}; {cut} in MIG mode.").format(there=there, cut=cut)


def cut_row(view: CutView) -> CutRow:
    mode = _("in MIG mode") if view.mode else _("whole: MIG mode is off")
    if view.mode and view.gpu.instances is None:
        mode = _("cut on demand")
    fits = tuple(offer.profile for offer in offers(view.now) if offer.fits and not offer.touched) if view.mode else ()
    href = f"/admin/mig?{urlencode({'gpu': view.gpu.uuid})}"
    return CutRow(
        view.gpu.uuid, view.name, view.gpu.kind, view.gpu.simulated, mode, view.auto, view.cutting, bar_now(view), fits, href
    )  # fmt: skip


def bar_now(view: CutView) -> CutBar:
    owners = {holder.gpu.start: holder.owner for holder in view.holders if holder.gpu.profile}
    pieces = tuple(piece(view, one, owners.get(one.start)) for one in view.now.instances)
    whole = _("whole") if not view.mode else _("nothing is cut")
    return CutBar(f"{view.name}: " + (", ".join(one.said for one in pieces) or whole), pieces)


def piece(view: CutView, one: MigInstance, owner: str | None, look: str = "") -> CutPiece:
    part = 100 / view.table.memory_slices
    in_use = one.start in view.now.in_use
    words = {"made": _("new"), "gone": _("goes")}.get(look) or (_("held by {owner}").format(owner=owner) if owner else "")
    state = words or (_("in use") if in_use else _("free"))
    label = one.profile if not owner else f"{one.profile} · {owner}"
    look = look or ("held" if in_use else "idle")
    return CutPiece(one.start * part, one.size * part, label, f"{one.profile} @ {one.start}: {state}", look, hue_of(owner) if owner else "")


def preview_of(view: CutView, want: str, plan: CutPlan) -> Preview:
    before, owners = bar_now(view), {holder.gpu.start: holder.owner for holder in view.holders if holder.gpu.profile}
    gone = {(one.profile, one.start) for one in plan.touched}
    pieces_before = tuple(
        piece(view, one, owners.get(one.start), "gone" if (one.profile, one.start) in gone else "") for one in view.now.instances
    )
    after = (
        *(piece(view, one, owners.get(one.start)) for one in plan.kept),
        *(piece(view, one, None, "made") for one in plan.made),
    )
    drawn = tuple(sorted(after, key=lambda one: one.left))
    return Preview(
        want, plan.fits, preview_answer(view, want, plan), CutBar(before.said, pieces_before),
        CutBar(", ".join(one.said for one in drawn) or _("whole"), drawn), names(plan.made), names(plan.touched), names(plan.kept),
        plan.changes or bool(plan.fits and want.strip().lower() == WHOLE and view.mode) or (plan.fits and not view.mode),
        places(plan.touched),
    )  # fmt: skip


def preview_answer(view: CutView, want: str, plan: CutPlan) -> str:
    if not plan.fits:
        return _("It does not fit: {why}.").format(why=told_here(plan.why))
    if plan.touched:
        return ngettext(
            "It fits, and {count} idle instance goes for it. Nothing that is in use is touched.",
            "It fits, and {count} idle instances go for it. Nothing that is in use is touched.", len(plan.touched),
        ).format(count=len(plan.touched))  # fmt: skip
    return _("It fits, and nothing that is there is touched.")


def names(instances: Iterable[MigInstance]) -> tuple[str, ...]:
    return tuple(f"{one.profile} @ {one.start}" for one in instances)
