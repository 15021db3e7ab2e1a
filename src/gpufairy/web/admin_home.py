"""Admin: the overview. What waits for an admin now, each with the page where it is settled."""
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.house import House
from gpufairy.core.alert import Alert, Severity
from gpufairy.core.image import ImageState
from gpufairy.core.node import NodeState
from gpufairy.web.admin import changed, show_admin
from gpufairy.web.admin_backups import backup_block, make_one
from gpufairy.web.admin_nodes import nodes_page
from gpufairy.web.context import PageContext
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.sentences import told
from gpufairy.web.speech import _, ngettext
from gpufairy.web.told_here import told_here
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark


@dataclass(frozen=True, slots=True)
class Waiting:
    mark: Mark
    words: str
    href: str
    button: str


@dataclass(frozen=True, slots=True)
class AdminHome:
    answer: str
    waiting: tuple[Waiting, ...]
    users: int
    teams: int
    hosts: int
    gpus: int


def add_admin_home(router: APIRouter, context: PageContext) -> None:
    async def page(request: Request, trouble: Trouble | None) -> Response:
        alerts = () if context.desk is None else context.desk.watch.alerts()
        block = backup_block(context.backups, context.house.clock())
        return show_admin(request, "home", trouble, refresh_s=LOOK_AGAIN_S, seen=admin_home(context.house, alerts), backup=block)

    @router.get("/admin")
    async def admin(request: Request) -> Response:
        return await page(request, None)

    @router.post("/admin/backups")
    async def back_up(request: Request) -> Response:
        return await changed(context, request, "backup", lambda admin, _fields: make_one(context, admin), page)


def admin_home(house: House, alerts: Sequence[Alert] = ()) -> AdminHome:
    waiting = (*alerts_firing(alerts), *images_waiting(house), *agents_asking(house), *hosts_in_trouble(house), *nobody_else(house))
    counted = len(waiting)
    answer = ngettext("{count} thing waits for you.", "{count} things wait for you.", counted).format(count=counted)
    gpus = sum(len(node.gpus) for node in house.nodes)
    hosts = len(nodes_page(house).rows)
    users, teams = len(house.registry.users()), len(house.teams.all())
    return AdminHome(answer if waiting else _("Nothing waits for you."), waiting, users, teams, hosts, gpus)


def alerts_firing(alerts: Sequence[Alert]) -> list[Waiting]:
    """Those that nobody took note of; of a node in trouble there is a line of its own."""
    open_ones = [one for one in alerts if one.fired_at is not None and one.acked_at is None and one.severity is not Severity.NOTE]
    if not open_ones:
        return []
    words = ngettext("{count} alert: {first}", "{count} alerts, among them: {first}", len(open_ones))
    said = words.format(count=len(open_ones), first=told(open_ones[0].sentence))
    return [Waiting(Mark(_("Trouble"), "bad"), said, "/admin/alerts", _("Look at it"))]


def images_waiting(house: House) -> list[Waiting]:
    makers = [user.name for user in house.registry.users()]
    found = [image for name in makers for image in house.gallery.made_by(name) if image.image_id and image.state is ImageState.WAITING]
    if not found:
        return []
    words = ngettext("{count} image waits for your yes or no: {names}", "{count} images wait for your yes or no: {names}", len(found))
    names = ", ".join(image.name for image in found[:3])
    return [Waiting(Mark(_("Waiting"), "wait"), words.format(count=len(found), names=names), "/admin/images", _("Decide"))]


def agents_asking(house: House) -> list[Waiting]:
    names = [asker.name for asker in house.agents.waiting()[:10]]
    words = [_("The agent of {name} asks to be let in.").format(name=name) for name in names]
    return [Waiting(Mark(_("Asks"), "wait"), told, "/admin/nodes", _("Look at it")) for told in words]


def hosts_in_trouble(house: House) -> list[Waiting]:
    ours = [
        Waiting(Mark(_("Trouble"), "bad"), f"{node.name}: {told_here(node.state_why)}", "/admin/nodes", _("Look at it"))
        for node in house.nodes
        if node.state in (NodeState.FAULTY, NodeState.SILENT)
    ]
    why = {node.name: told_here(node.state_why) for node in house.nodes if node.state is NodeState.DRAINED}
    words = [_("{name} is drained: {why}").format(name=name, why=told) for name, told in why.items()]
    return [*ours, *(Waiting(Mark(_("Drained"), "wait"), told, "/admin/nodes", _("Take it back")) for told in words)]


def nobody_else(house: House) -> list[Waiting]:
    if len(house.registry.users()) > 1:
        return []
    words = _("You are the only user. Add the others, and send each a sign-in link.")
    return [Waiting(Mark(_("First step"), "start"), words, "/admin/users", _("Add a user"))]
