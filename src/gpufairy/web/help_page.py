"""Help: what this infrastructure is, drawn from what is really there, and the first steps with one's own names filled in."""
import base64
import binascii
import hashlib
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpufairy.control.house import House
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.node import Gpu
from gpufairy.core.people import Role
from gpufairy.core.sharing import MEMORY, sharing_of
from gpufairy.web.admin_shares import sharing_words
from gpufairy.web.context import PageContext
from gpufairy.web.forms import caller_of
from gpufairy.web.gpu_bars import kinds
from gpufairy.web.hosts import host_of
from gpufairy.web.pages import show
from gpufairy.web.speech import _, ngettext
from gpufairy.web.words import UNBROKEN


@dataclass(frozen=True, slots=True)
class HelpHost:
    name: str
    gpus: tuple[tuple[str, bool], ...]  # `2 × A100-40GB`, and whether they are simulated
    memory: tuple[str, ...]  # of one GPU of each kind
    has: str


@dataclass(frozen=True, slots=True)
class Folder:
    path: str  # inside a session
    what: str
    write: bool


@dataclass(frozen=True, slots=True)
class HelpPage:
    answer: str
    hosts: tuple[HelpHost, ...]
    engine: str
    isolation: str
    shares: tuple[str, ...]
    folders: tuple[Folder, ...]


@dataclass(frozen=True, slots=True)
class Me:
    """What commands are filled in with."""

    name: str
    host: str
    port: int | None  # None: there is no SSH here
    fingerprint: str
    has_key: bool
    smi: str  # what shows the GPUs one was given


def add_help(router: APIRouter, context: PageContext) -> None:
    @router.get("/help")
    async def help_page_shown(request: Request) -> Response:
        user, house = caller_of(request).user, context.house
        has_key = bool(house.keyring.of(user.name))
        real = any(not gpu.simulated for node in house.nodes for gpu in node.gpus)
        me = Me(
            user.name, host_of(request, context.url), context.ssh_port, fingerprint_of(context.ssh_host_key), has_key,
            "nvidia-smi" if real else "fairy smi",
        )  # fmt: skip
        return show(
            "help.html", user=user.name, is_admin=user.role is Role.ADMIN, seen=help_page(context), me=me, fairy=context.fairy_command,
            url=context.url,
        )  # fmt: skip


def help_page(context: PageContext) -> HelpPage:
    house = context.house
    hosts = tuple(
        HelpHost(
            node.name, kinds(node), tuple(dict.fromkeys(show_size(gpu.memory_bytes) for gpu in node.gpus)),
            _("{cpus} CPUs, {memory}").format(cpus=show_cpus(node.cpus_milli), memory=show_size(node.memory_bytes)),
        )
        for node in house.nodes
    )  # fmt: skip
    return HelpPage(answer(house), hosts, house.engine.name, house.engine.isolation, share_words(house), folders(context))


def answer(house: House) -> str:
    gpus = sum(len(node.gpus) for node in house.nodes)
    there = ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus).replace(" ", UNBROKEN)
    hosts = ngettext("{count} host", "{count} hosts", len(house.nodes)).format(count=len(house.nodes)).replace(" ", UNBROKEN)
    return _("{gpus} on {hosts}, shared by everybody here in turn.").format(gpus=there, hosts=hosts)


def share_words(house: House) -> tuple[str, ...]:
    """For each sort of GPU, whether a part of it is held or only counted."""
    sorts: dict[tuple[str, str, bool, bool], Gpu] = {}
    for gpu in (gpu for node in house.nodes for gpu in node.gpus):
        sorts.setdefault((gpu.kind, sharing_of(gpu), MEMORY in gpu.held_to, gpu.simulated), gpu)
    return tuple(dict.fromkeys(sort_words(gpu) for gpu in sorts.values()))


def sort_words(gpu: Gpu) -> str:
    if gpu.simulated:
        return _("{kind}: simulated, so a share is only accounted").format(kind=gpu.kind)
    held = _("enforced: more than your share is refused") if MEMORY in gpu.held_to else _("only accounted: stay within yours")
    return _("{kind}: shared {how}; a share is {held}").format(kind=gpu.kind, how=sharing_words(sharing_of(gpu)), held=held)


def folders(context: PageContext) -> tuple[Folder, ...]:
    own = (
        Folder("$HOME", _("yours, the same in every session"), True),
        Folder("/results", _("of a batch session: what is written there comes back to you"), True),
    )
    if context.house.engine.shelf is None:
        return own
    shared = Folder("/shared", _("common to all"), False)
    named = () if context.config is None else context.config.folders.items()
    mounts = (Folder(f"/mnt/{name}", _("with --mount {name}").format(name=name), folder.write) for name, folder in named)
    return (*own, shared, *mounts)


def fingerprint_of(host_key: str) -> str:
    """As ssh shows it the first time: who compares them knows whom they speak to."""
    try:
        blob = binascii.a2b_base64(host_key.split()[1])
    except (IndexError, binascii.Error):
        return ""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
