"""Admin: nodes. Drain one and take it back; agents that ask to be let in; hosts that are only watched."""
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control import govern, host_care
from gpufairy.control.house import House
from gpufairy.control.watch import Seen
from gpufairy.core.agent import AgentWaiting, fingerprint
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.node import Node, NodeState
from gpufairy.web.admin import Fields, add_page, said, show_admin
from gpufairy.web.bookings_routes import moment_here
from gpufairy.web.context import PageContext
from gpufairy.web.forms import no_such_deed
from gpufairy.web.gpu_bars import kinds
from gpufairy.web.host_care_view import host_care_view
from gpufairy.web.pages import LOOK_AGAIN_S
from gpufairy.web.speech import _, ngettext
from gpufairy.web.trouble import Trouble
from gpufairy.web.words import Mark, ago_words
from gpufairy.wire.maintenance import WindowBody
from gpufairy.wire.read import read


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    mark: Mark
    why: str
    gpus: tuple[tuple[str, bool], ...]  # `2 × A100-40GB`, and whether they are simulated
    has: str
    sessions: int
    drained: bool
    runs_sessions: bool = True


@dataclass(frozen=True, slots=True)
class AskingRow:
    name: str
    fingerprint: str
    address: str
    asked: str
    replaces: bool


@dataclass(frozen=True, slots=True)
class NodesPage:
    answer: str
    next_step: str
    rows: tuple[NodeRow, ...]
    asking: tuple[AskingRow, ...]
    drainable: tuple[tuple[str, str], ...]  # as a list to choose from has them
    all_hosts: tuple[tuple[str, str], ...]


def add_nodes(router: APIRouter, context: PageContext) -> None:
    house = context.house

    async def page(request: Request, trouble: Trouble | None) -> Response:
        seen, fairy = nodes_page(house), context.fairy_command
        care = await host_care_view(house, context.desk, context.janitor)
        return show_admin(request, "nodes", trouble, refresh_s=LOOK_AGAIN_S, seen=seen, care=care, fairy=fairy, url=context.url)

    async def change(admin: str, deed: str, fields: Fields) -> str:
        await change_nodes(house, admin, deed, fields)
        return "/admin/nodes"

    add_page(router, context, "/admin/nodes", page, change)


async def change_nodes(house: House, admin: str, deed: str, fields: Fields) -> None:
    name = fields.get("name", "")
    match deed:
        case "drain":
            await govern.set_drained(house, admin, name, (said(fields, "why") or f"drained by {admin}")[:255])
        case "resume":
            await govern.set_drained(house, admin, name, None)
        case "accept":
            await govern.accept_agent(house, admin, name, said(fields, "fingerprint"))
        case "forget":
            await govern.forget_agent(house, admin, name)
        case "maintenance":
            await host_care.plan_window(house, admin, name, window_in(fields))
        case "end-window":
            await host_care.end_window(house, admin, fields.get("window", ""))
        case _:
            raise no_such_deed(deed)


def window_in(fields: Fields) -> WindowBody:
    """A browser's field for a time says no zone: it is that of whoever looks."""
    start = said(fields, "start")
    at = None if start is None else moment_here(start).isoformat()
    return read(WindowBody, {"start": at, "time": said(fields, "time"), "why": fields.get("why", "")}, "maintenance")


def nodes_page(house: House) -> NodesPage:
    ours = {node.name for node in house.nodes}
    watched = [seen for seen in house.watch.hosts() if seen.node not in ours]
    rows = (*(node_row(house, node) for node in house.nodes), *(watched_row(seen) for seen in watched))
    asking = tuple(asking_row(house, asker) for asker in house.agents.waiting())
    drainable = tuple((node.name, node.name) for node in house.nodes if node.state is not NodeState.DRAINED)
    return NodesPage(*answer(rows, len(asking)), rows, asking, drainable, tuple((row.name, row.name) for row in rows))


def answer(rows: tuple[NodeRow, ...], asking: int) -> tuple[str, str]:
    wrong = [row for row in rows if row.mark.look == "bad"]
    drained = sum(row.drained for row in rows)
    told = [ngettext("{count} host", "{count} hosts", len(rows)).format(count=len(rows))]
    if wrong:
        told.append(_("{count} in trouble: {names}").format(count=len(wrong), names=", ".join(row.name for row in wrong[:3])))
    if drained:
        told.append(_("{count} drained").format(count=drained))
    if asking:
        return ", ".join(told) + ".", _("An agent asks to be let in: compare its fingerprint with what it printed on its host.")
    return ", ".join(told) + ".", _("Drain a host before you work on it: what runs goes on, and nothing new starts there.")


def node_row(house: House, node: Node) -> NodeRow:
    marks = {
        NodeState.READY: Mark(_("Ready"), "run"),
        NodeState.DRAINED: Mark(_("Drained"), "wait"),
        NodeState.FAULTY: Mark(_("Faulty"), "bad"),
        NodeState.SILENT: Mark(_("Silent"), "bad"),
    }
    sessions = sum(session.seat is not None and session.seat.node == node.name for session in house.book.holding())
    has = _("{cpus} CPUs, {memory}").format(cpus=show_cpus(node.cpus_milli), memory=show_size(node.memory_bytes))
    drained = node.state is NodeState.DRAINED and house.maintenance.running(node.name, house.clock()) is None
    return NodeRow(node.name, marks[node.state], node.state_why, kinds(node), has, sessions, drained)


def watched_row(seen: Seen) -> NodeRow:
    mark = Mark(_("Silent"), "bad") if seen.silent else Mark(_("Watched"), "end")
    gpus = 0 if seen.sample is None else sum(device.parent is None for device in seen.sample.devices)
    has = ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus)
    return NodeRow(seen.node, mark, _("watched by its agent; no sessions are started there"), (), has, 0, False, False)


def asking_row(house: House, asker: AgentWaiting) -> AskingRow:
    asked = ago_words(asker.asked_at, house.clock())
    return AskingRow(asker.name, fingerprint(asker.key), asker.address, asked, asker.replaces)
