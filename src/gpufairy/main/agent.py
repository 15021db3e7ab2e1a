"""`fairy agent`: watches this host and reports to a server, signed, every few seconds. With or without Docker; it changes nothing here."""
import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import one_command, where_of
from gpufairy.client.protocol import parse_url
from gpufairy.core.errors import BadInput
from gpufairy.core.names import node_name
from gpufairy.core.naming_rule import NamingRules
from gpufairy.core.node_sample import NodeSample
from gpufairy.main.collect import keep_collecting, make_sampler, naming_rules, page_for, speak_to_stderr, until_told_to_end, writable_folder
from gpufairy.main.exporter import Data, Every, Kubelet, Kubernetes, Name, Names, SessionNamespace, Simulate, TextfileFolder, parse_every
from gpufairy.main.folders import data_folder, host_name
from gpufairy.main.pods import KUBELET, KubernetesWatch
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
    session_namespace: SessionNamespace = None,
) -> None:
    """Watch this host and report to a server. An admin accepts it once: fairy node accept NAME."""
    url = server or where_of(ctx).server
    if url is None:
        raise BadInput("agent: no server was named", "Write fairy agent --server http://HOST:8420.")
    parse_url(url)
    folder = data_folder(data, dict(os.environ)) / "node"
    lock = FolderLock(folder)
    settings = Settings(
        url, node_name(name or host_name(), "--name"), own_identity(folder), writable_folder(folder) or folder, parse_every(every),
        naming_rules(names or (), ()), bool(names), simulate, None if listen is None else parse_listen(listen), textfile,
        KubernetesWatch(kubernetes, None, kubelet, session_namespace),
    )  # fmt: skip
    speak_to_stderr()
    sys.stderr.write(f"fairy: this is {settings.node}, key {settings.identity.fingerprint}, reporting to {url}\n")
    asyncio.run(until_told_to_end(watch(settings)))
    lock.release()


async def watch(settings: Settings) -> None:
    sampler, source = make_sampler(settings.node, settings.simulate, settings.every_s, settings.rules, settings.kubernetes)
    outlet = Outlet(page_for(settings.every_s), None if settings.textfile is None else Textfile(settings.textfile), settings.data)
    exporter = None if settings.listen is None else Exporter(outlet.page)
    reporter = Reporter(settings.node, settings.url, settings.identity, Spool(settings.data / "spool"), heed(sampler, settings))
    await source.start()
    if exporter is not None and settings.listen is not None:
        await exporter.start(listening(*settings.listen))
    gathered: list[NodeSample] = []
    reporting = asyncio.create_task(keep_reporting(reporter, gathered))
    collecting = asyncio.create_task(keep_collecting(sampler, settings.every_s, outlet, [gather(gathered)]))
    try:
        # Neither ends by itself. One that fails ends the agent, so that whoever started it sees that, and starts it again.
        ended, _ = await asyncio.wait([reporting, collecting], return_when=asyncio.FIRST_COMPLETED)
        ended.pop().result()
    finally:
        reporting.cancel()
        collecting.cancel()
        await asyncio.wait([reporting, collecting])
        if exporter is not None:
            await exporter.stop()
        await source.close()
        outlet.close()
        reporter.end(gathered)


def gather(gathered: list[NodeSample]) -> Callable[[NodeSample], Awaitable[None]]:
    async def take(sample: NodeSample) -> None:
        gathered.append(sample)
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


async def keep_reporting(reporter: Reporter, gathered: list[NodeSample]) -> None:
    wait_s = FIRST_REPORT_S
    while True:
        await asyncio.sleep(wait_s)
        samples = list(gathered)
        gathered.clear()
        went_well = await reporter.report(samples)
        wait_s = reporter.pace.wait_s(REPORT_EVERY_S, went_well=went_well)


agent = one_command(_agent, "fairy agent --server http://fairy.lab:8420")
