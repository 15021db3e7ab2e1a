"""`fairy agent`: watches this host and reports to a server, signed, every few seconds. With or without Docker; it changes nothing here,
unless it is told to hand out this node's GPUs in Kubernetes (--dra).
"""
import asyncio
import importlib
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import one_command, where_of
from gpufairy.client.protocol import parse_url
from gpufairy.core.errors import BadInput
from gpufairy.core.names import node_name
from gpufairy.core.naming_rule import NamingRules
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.unit_file import AGENT
from gpufairy.main.collect import (
    Source,
    keep_collecting,
    make_sampler,
    naming_rules,
    page_for,
    speak_to_stderr,
    until_told_to_end,
    writable_folder,
)
from gpufairy.main.disk_agent import DiskFolders, make_disk_watch, wanted_folders
from gpufairy.main.exporter import Data, Every, Kubelet, Kubernetes, Name, Names, SessionNamespaces, Simulate, TextfileFolder, parse_every
from gpufairy.main.folders import data_folder, host_name
from gpufairy.main.install import DryRun, Install, Machine, Uninstall, agent_service, given
from gpufairy.main.install import install as install_service
from gpufairy.main.install import uninstall as uninstall_service
from gpufairy.main.pods import KUBELET, KubernetesWatch
from gpufairy.node.disk_places import HostFolders
from gpufairy.node.disk_watch import DiskWatch
from gpufairy.node.exporter import Exporter, listening, parse_listen
from gpufairy.node.folder_lock import FolderLock
from gpufairy.node.identity import Identity, own_identity
from gpufairy.node.outlet import Outlet
from gpufairy.node.reporter import Reporter, Told
from gpufairy.node.sampler import Sampler
from gpufairy.node.spool import Spool
from gpufairy.node.textfile import Textfile

log = logging.getLogger("gpufairy.agent")

REPORT_EVERY_S = 5.0  # also the heartbeat: a host that missed three is silent
FIRST_REPORT_S = 1.0  # who starts an agent waits to be told whether it is let in
MOST_GATHERED = 64  # samples of one report
CDI = Path("/var/run/cdi")


@dataclass(frozen=True, slots=True)
class Dra:
    """This node's GPUs in shares for Kubernetes."""

    cdi: Path  # where the container engine looks for CDI files
    sharing: str  # mps or time
    leaves: bool  # takes its GPUs off the cluster's list when it ends


@dataclass(frozen=True, slots=True)
class Settings:
    url: str
    node: str
    identity: Identity
    data: Path
    every_s: float
    rules: NamingRules
    own_rules: bool  # given here, so the server's do not count
    simulate: str | None
    listen: tuple[str, int] | None
    textfile: Path | None
    kubernetes: KubernetesWatch
    folders: HostFolders  # whose files are told of
    dra: Dra | None = None


def _agent(
    ctx: typer.Context,
    *,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="The server to report to.")] = None,
    name: Name = None,
    listen: Annotated[str | None, typer.Option("--listen", metavar="ADDRESS:PORT", help="Answer /metrics there, too.")] = None,
    textfile: TextfileFolder = None,
    simulate: Simulate = None,
    names: Names = None,
    every: Every = "1s",
    data: Data = None,
    kubernetes: Kubernetes = "auto",
    kubelet: Kubelet = KUBELET,
    session_namespace: SessionNamespaces = None,
    disk: DiskFolders = None,
    dra: Annotated[bool, typer.Option("--dra", help="Hand out this node's GPUs in Kubernetes, in shares, as its DRA driver.")] = False,
    cdi: Annotated[Path, typer.Option("--cdi", metavar="DIR", help="Where the container engine looks for CDI files.")] = CDI,
    dra_sharing: Annotated[str, typer.Option("--dra-sharing", metavar="HOW", help="Parts of GPUs are held apart by time or mps.")] = "time",
    dra_leave: Annotated[bool, typer.Option("--dra-leave", help="Take the GPUs off the cluster's list when the agent ends.")] = False,
    install: Install = False,
    uninstall: Uninstall = False,
    dry_run: DryRun = False,
) -> None:
    """Watch this host and report to a server. An admin accepts it once: fairy node accept NAME."""
    if uninstall:
        uninstall_service(AGENT, Machine(), dry_run=dry_run)
        return
    url = server or where_of(ctx).server
    if url is None:
        raise BadInput("agent: no server was named", "Write fairy agent --server http://HOST:8420.")
    parse_url(url)
    node = node_name(name or host_name(), "--name")
    folders = wanted_folders(node, disk or ())
    if install:
        options = given(server=url, name=name, listen=listen, textfile=textfile, simulate=simulate, every=every, kubelet=kubelet)
        words = [word for flag, said in (("--names", names), ("--disk", disk)) for one in said or () for word in (flag, one)]
        install_service(agent_service(data, [*options, *words]), Machine(), dry_run=dry_run)
        return
    folder = data_folder(data, dict(os.environ)) / "node"
    lock = FolderLock(folder)
    settings = Settings(
        url, node, own_identity(folder), writable_folder(folder) or folder, parse_every(every),
        naming_rules(names or (), ()), bool(names), simulate, None if listen is None else parse_listen(listen), textfile,
        KubernetesWatch(kubernetes, None, kubelet, tuple(session_namespace or ())), folders,
        dra_settings(cdi, dra_sharing, simulate, leaves=dra_leave) if dra else None,
    )  # fmt: skip
    speak_to_stderr()
    sys.stderr.write(f"fairy: this is {settings.node}, key {settings.identity.fingerprint}, reporting to {url}\n")
    asyncio.run(until_told_to_end(watch(settings)))
    lock.release()


def dra_settings(cdi: Path, sharing: str, simulate: str | None, *, leaves: bool) -> Dra:
    if sharing not in ("time", "mps"):
        raise BadInput(f"--dra-sharing: found {sharing[:40]!r}", "Write time or mps.")
    if simulate is not None:
        raise BadInput("--dra: simulated GPUs cannot be handed out", "Leave --simulate out.")
    return Dra(cdi, sharing, leaves)


async def watch(settings: Settings) -> None:
    sampler, source = make_sampler(settings.node, settings.simulate, settings.every_s, settings.rules, settings.kubernetes)
    outlet = Outlet(page_for(settings.every_s), None if settings.textfile is None else Textfile(settings.textfile), settings.data)
    exporter = None if settings.listen is None else Exporter(outlet.page)
    disk = make_disk_watch(settings.folders, settings.data)
    reporter = Reporter(settings.node, settings.url, settings.identity, Spool(settings.data / "spool"), heed(sampler, settings))
    loop = asyncio.get_running_loop()
    reporter.on_walk_asked = lambda wish: loop.call_soon_threadsafe(disk.ask, wish)  # reports are sent aside
    await source.start()
    if exporter is not None and settings.listen is not None:
        await exporter.start(listening(*settings.listen))
    gathered: list[NodeSample] = []
    tasks = [
        asyncio.create_task(keep_reporting(reporter, gathered, disk)),
        asyncio.create_task(disk.keep_walking()),
        asyncio.create_task(keep_collecting(sampler, settings.every_s, outlet, [gather(gathered)])),
        *([] if settings.dra is None else [asyncio.create_task(handing_out(settings, settings.dra, source))]),
    ]
    try:
        # None ends by itself. One that fails ends the agent, so that whoever started it sees that, and starts it again.
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if exporter is not None:
            await exporter.stop()
        await source.close()
        outlet.close()
        reporter.end(gathered)


async def handing_out(settings: Settings, dra: Dra, source: Source) -> None:
    """Its parts, and the library under them, are loaded only where they are wanted: they are a tenth of an agent's memory."""
    hand_out = importlib.import_module("gpufairy.main.dra").hand_out
    await hand_out(dra, settings.kubernetes, source.latest, settings.data)


def gather(gathered: list[NodeSample]) -> Callable[[NodeSample], Awaitable[None]]:
    began_s = time.monotonic()

    async def take(sample: NodeSample) -> None:
        gathered.append(replace(sample, agent_up_s=time.monotonic() - began_s))
        del gathered[:-MOST_GATHERED]

    return take


def heed(sampler: Sampler, settings: Settings) -> Callable[[Told], None]:
    """The lab's naming rule is set once, on the server. What was given here stands."""
    last = Told()

    def hear(told: Told) -> None:
        nonlocal last
        if told == last or settings.own_rules:
            return
        last = told
        try:
            sampler.eyes.whose.use(naming_rules(told.name_rules, told.user_labels, told.users, what="rule of the server"))
        except BadInput as error:  # of a newer server: the rules that we know stay
            log.warning("%s", error)

    return hear


async def keep_reporting(reporter: Reporter, gathered: list[NodeSample], disk: DiskWatch) -> None:
    wait_s = FIRST_REPORT_S
    while True:
        await asyncio.sleep(wait_s)
        samples = list(gathered)
        gathered.clear()
        went_well = await reporter.report(samples)
        if went_well:
            await disk.tell(reporter.tell)
        wait_s = reporter.pace.wait_s(REPORT_EVERY_S, went_well=went_well)


agent = one_command(_agent, "fairy agent --server http://fairy.lab:8420")
