"""Pages of a new session: the form, what would become of it, told while it is filled in, and the submit itself."""
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.door import submit
from gpufairy.control.find import find_session
from gpufairy.control.preview import preview, shares_now
from gpufairy.control.registry import Caller
from gpufairy.core.errors import FairyError, NoSuchThing, StoreUnavailable
from gpufairy.core.names import nearest
from gpufairy.core.share import PARTS
from gpufairy.web.context import PageContext
from gpufairy.web.forms import acting, pairs_of
from gpufairy.web.image_versions import Repository, repositories
from gpufairy.web.launch_choices import LATER, NOW, Choice, PresetCard, Stop, kinds, preset_cards, priorities, profiles, stops
from gpufairy.web.launch_form import Typed, body_of, body_of_session, changed, typed_from, typed_of
from gpufairy.web.launch_text import command_line, session_file
from gpufairy.web.launch_verdict import Verdict, verdict_of, verdict_on
from gpufairy.web.pages import show
from gpufairy.web.sign_in import to_page
from gpufairy.web.speech import _
from gpufairy.web.times import figure_of
from gpufairy.wire.submit import SubmitBody

UNFIT = 422  # what was sent is shown again with what is wrong with it


@dataclass(frozen=True, slots=True)
class Told:
    """What changes with every letter that is typed."""

    verdict: Verdict
    stops: tuple[Stop, ...]
    profiles: tuple[Stop, ...]
    file: str  # empty while nothing can be made of the form
    command: str
    link: str


@dataclass(frozen=True, slots=True)
class LaunchPage:
    answer: str
    typed: Typed
    presets: tuple[PresetCard, ...]
    preset: str  # the one that it began from
    kinds: tuple[Choice, ...]
    priorities: tuple[Choice, ...]
    folders: tuple[str, ...]
    images: tuple[Repository, ...] | None  # None: there are none here
    default_image: str
    may_pull: bool
    key: str  # of this one form: sent twice, it starts once


def add_launch(router: APIRouter, context: PageContext) -> None:
    @router.get("/new")
    async def new(request: Request) -> Response:
        caller, asked = acting(request), dict(request.query_params)
        typed = typed_of(asked, await beginning(context, caller, asked))
        return await page(context, caller, typed, asked.get("preset", ""))

    @router.post("/new/preview")
    async def what_would_become(request: Request) -> Response:
        typed, caller = typed_of(joined(await pairs_of(request, context.url))), acting(request)
        return show("launch_told.html", user=caller.user.name, told=await told(context, caller, typed), typed=typed)

    @router.post("/new")
    async def start(request: Request) -> Response:
        sent, caller = joined(await pairs_of(request, context.url)), acting(request)
        typed = typed_of(sent)
        try:
            sessions = await submit(context.house, caller, body_of(typed), context.presets, sent.get("key") or None)
        except StoreUnavailable:
            raise
        except FairyError as error:
            return await page(context, caller, typed, "", verdict_on(error))
        return to_page("/" if len(sessions) > 1 else f"/sessions/{quote(sessions[0].name)}")


def joined(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Boxes of one name are lines of one field."""
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields[name] = f"{fields[name]}\n{value}" if name == "mounts" and fields.get(name) else value
    return fields


async def beginning(context: PageContext, caller: Caller, asked: dict[str, str]) -> Typed:
    """As a preset has it, or a session that was started before; else with one GPU's half, where there are GPUs."""
    if name := asked.get("like"):
        return typed_from(body_of_session(await find_session(context.house, caller, name)))
    if name := asked.get("preset"):
        return typed_from(preset_named(context, name))
    return replace(Typed(), gpus="0.5" if any(gpu.mig is None for node in context.house.nodes for gpu in node.gpus) else "0")


def preset_named(context: PageContext, name: str) -> SubmitBody:
    if name not in context.presets:
        raise NoSuchThing(f"no preset {name[:60]!r}{nearest(name, context.presets)}", "Choose one on the page of new sessions.")
    return context.presets[name]


async def page(context: PageContext, caller: Caller, typed: Typed, preset: str, refused: Verdict | None = None) -> Response:
    house, gallery = context.house, context.house.gallery
    default = gallery.rules.default
    typed = replace(typed, image="") if typed.image == default else typed  # it stands there by itself, before the others
    offers = [] if gallery.shelf is None else await gallery.offers(caller)
    others = [offer for offer in offers if offer.refusal is None and offer.image.name != default]
    images = repositories(others, gallery.rules, caller.user.name, house.clock())
    found = await told(context, caller, typed)
    rooms = house.cluster().rooms()
    shown = LaunchPage(
        answer=free_words(sum(gpu.free_parts for room in rooms.values() for gpu in room.gpus), sum(len(n.gpus) for n in house.nodes)),
        typed=typed,
        presets=preset_cards(context.presets),
        preset=preset,
        kinds=kinds(rooms),
        priorities=priorities(caller.is_admin, typed.priority),
        folders=tuple(dict.fromkeys([*context.folders, *typed.mounts.split()])),
        images=None if gallery.shelf is None else images,
        default_image=default,
        may_pull=gallery.rules.pull,
        key=secrets.token_hex(16),
    )
    told_now = found if refused is None else replace(found, verdict=refused)
    status = 200 if refused is None else UNFIT
    return show("launch.html", status, user=caller.user.name, is_admin=caller.is_admin, launch=shown, told=told_now, typed=typed)


def free_words(free_parts: int, gpus: int) -> str:
    if not gpus:
        return _("There is no GPU here: sessions run on CPUs.")
    return _("{free} of {all} GPUs are free now.").format(free=figure_of(free_parts / PARTS), all=gpus)


async def told(context: PageContext, caller: Caller, typed: Typed) -> Told:
    house, body = context.house, None
    offered, mig = stops(house.nodes), profiles(house.nodes)
    try:
        body = body_of(typed)
        found = await preview(house, caller, body, context.presets)
        starts = shares_now(house, found.sessions[0], [stop.share for stop in (*offered, *mig)])
        offered, mig = (tuple(replace(one, starts=NOW if starts[one.share] else LATER) for one in some) for some in (offered, mig))
        verdict = verdict_of(found, house.clock())
    except StoreUnavailable:
        raise
    except FairyError as error:
        verdict = verdict_on(error)
    file, command = ("", "") if body is None else (session_file(body), command_line(body, context.fairy_command))
    return Told(verdict, offered, mig, file, command, f"/new?{urlencode(changed(typed))}")
