"""`fairy exporter`: readings of this host for Prometheus, by HTTP and as a textfile. Needs no server."""
import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import one_command
from gpufairy.core.amounts import parse_duration
from gpufairy.core.errors import BadInput
from gpufairy.core.names import node_name
from gpufairy.main.collect import (
    Source,
    first_sample,
    make_sampler,
    naming_rules,
    writable_folder,
)
from gpufairy.main.exporting import Exporting, become
from gpufairy.main.folders import data_folder, host_name
from gpufairy.main.pods import KUBELET, KubernetesWatch
from gpufairy.node.exporter import listening, parse_listen
from gpufairy.node.outlet import Outlet
from gpufairy.node.sampler import Sampler

Make = Callable[[], tuple[Sampler, Source]]
Listen = Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where /metrics answers.")]
TextfileFolder = Annotated[Path | None, typer.Option("--textfile", metavar="DIR", help="Write gpu_sessions.prom into this folder, too.")]
Simulate = Annotated[str | None, typer.Option("--simulate", metavar="GPUS", help="Pretend: 4xA100-40GB,1xH200")]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Of this host. Else its own.")]
Names = Annotated[list[str] | None, typer.Option("--names", metavar="RULE", help="How containers are named here: USER_*  May be repeated.")]
Every = Annotated[str, typer.Option("--every", metavar="TIME", help="How often the GPUs are read.")]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where counts and keys are kept. Else ~/.local/share/gpufairy.")]
Kubernetes = Annotated[
    str, typer.Option("--kubernetes", metavar="WHERE", help="Names of pods: auto (in the cluster, or by KUBECONFIG), off, or a kubeconfig.")
]
Kubelet = Annotated[str, typer.Option("--kubelet", metavar="DIR", help="The kubelet's root folder.")]
SessionNamespaces = Annotated[
    list[str] | None, typer.Option("--session-namespace", metavar="NAME", help="Whose pods are sessions. Else none. May be repeated.")
]


def _exporter(
    *,
    listen: Listen = "127.0.0.1:9835",
    textfile: TextfileFolder = None,
    once: Annotated[bool, typer.Option("--once", help="Read once, write the textfile or print, and end.")] = False,
    simulate: Simulate = None,
    name: Name = None,
    names: Names = None,
    every: Every = "1s",
    data: Data = None,
    kubernetes: Kubernetes = "auto",
    kubelet: Kubelet = KUBELET,
    session_namespace: SessionNamespaces = None,
) -> None:
    """Serve readings of this host's GPUs, processes and the host itself to Prometheus."""
    every_s, rules = parse_every(every), naming_rules(names or (), ())
    node = node_name(name or host_name(), "--name")
    folder = writable_folder(data_folder(data, dict(os.environ)) / "node")
    told = Exporting(
        node, every_s, tuple(names or ()), simulate,
        textfile=None if textfile is None else str(textfile), data=None if folder is None else str(folder),
        kubernetes=KubernetesWatch(kubernetes, None, kubelet, tuple(session_namespace or ())),
    )  # fmt: skip
    outlet, make = told.outlet(), partial(make_sampler, node, simulate, 1.0 if once else every_s, rules, told.kubernetes)
    if once:
        asyncio.run(read_once(make, outlet, printed=textfile is None))
        return
    make()  # what is wrong with what was asked for is said here
    become(told, listening(*parse_listen(listen)))


def parse_every(text: str) -> float:
    every_s = parse_duration(text, "--every").total_seconds()
    if not 0.2 <= every_s <= 60:
        raise BadInput(f"--every: {text} is not between 0.2s and 60s", "1s is usual; 5s costs less.")
    return every_s


async def read_once(make: Make, outlet: Outlet, *, printed: bool) -> None:
    sampler, source = make()
    await source.start()
    try:
        sample = await first_sample(sampler, source)
    finally:
        await source.close()
    outlet.put_once(sample)
    if printed:
        sys.stdout.buffer.write(outlet.page.answer(gzipped=False).body)
    for words in sample.trouble:
        sys.stderr.write(f"fairy: {words}\n")
    if not sample.gpus_known:
        raise typer.Exit(1)


exporter = one_command(_exporter, "fairy exporter --textfile /var/lib/node_exporter/textfile_collector")
