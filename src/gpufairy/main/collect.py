"""What the exporter and the agent have in common: the parts that look at this host, and the beat they look at."""
import asyncio
import contextlib
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from gpufairy.core.active import LONGEST_GAP_S, WINDOW_S, ActivityWindow
from gpufairy.core.naming_rule import NamingRules, parse_rules
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuSample
from gpufairy.devices.gpu_source import OnSample
from gpufairy.devices.nvml_source import NvmlSource
from gpufairy.devices.simulated import parse_simulate
from gpufairy.devices.simulated_source import SimulatedSource
from gpufairy.main.pods import KubernetesWatch, make_pods, no_pods
from gpufairy.node.accounts import Accounts
from gpufairy.node.containers import Containers, EngineSocket, usual_sockets
from gpufairy.node.exporter import FRESH_S, Page
from gpufairy.node.host import HostReader
from gpufairy.node.outlet import Outlet
from gpufairy.node.processes import Processes
from gpufairy.node.sampler import Eyes, Sampler
from gpufairy.node.whose import Whose

log = logging.getLogger("gpufairy.collect")
END_AGAIN_S = 5.0  # longer than leaving takes

Source = NvmlSource | SimulatedSource
Consumer = Callable[[NodeSample], Awaitable[None]]
HOST_ROOT = "FAIRY_HOST_ROOT"  # variable: where a container that watches its host has the host's file systems
FIRST_SAMPLE_S = 25.0  # a driver that is loaded by being asked takes ten
NO_DRIVER_S = 1.0  # after an answer that is none: whether there is a driver at all is told by how the process that asked it ends


def make_source(node: str, simulate: str | None, every_s: float, on_sample: OnSample) -> Source:
    if simulate is not None:
        return SimulatedSource(() if simulate in ("0", "none") else parse_simulate(simulate, host=node), nobody, every_s)
    return NvmlSource(every_s, on_sample=on_sample)


async def nobody() -> dict[str, Sequence[int]]:
    """Who holds a simulated GPU is known to the server that hands it out alone."""
    return {}


def make_eyes(rules: NamingRules, kubernetes: KubernetesWatch) -> Eyes:
    root = Path(os.environ.get(HOST_ROOT) or "/")
    containers, accounts, pods = Containers(engine_sockets(None)), Accounts(root), make_pods(kubernetes, os.environ)
    whose = Whose(
        containers, rules, accounts=accounts.name,
        pods=no_pods if pods is None else pods.facts, session_namespaces=kubernetes.session_namespaces,
    )  # fmt: skip
    return Eyes(Processes(), containers, whose, HostReader(root, accounts=accounts.name), pods=pods)


def engine_sockets(named: str | None) -> Callable[[], list[EngineSocket]]:
    """Where container engines are asked: the one that the settings or DOCKER_HOST name, beside the usual ones."""
    host = os.environ.get("DOCKER_HOST", "")
    path = named or (host.removeprefix("unix://") if host.startswith("unix://") else None)
    first = [] if path is None else [EngineSocket(os.path.realpath(path))]  # /var/run is /run: nobody is asked twice
    return lambda: list(dict.fromkeys([*first, *usual_sockets()]))


def naming_rules(texts: Sequence[str], labels: Sequence[str], users: Sequence[str] = (), *, what: str = "--names") -> NamingRules:
    """`users`: the only ones that a rule or label may name. Docker itself calls containers wonderful_turing, which fits USER_*."""
    return NamingRules(parse_rules(texts, what), tuple(labels) or NamingRules().labels, frozenset(users) or None)


def make_sampler(
    node: str, simulate: str | None, every_s: float, rules: NamingRules, kubernetes: KubernetesWatch = KubernetesWatch()
) -> tuple[Sampler, Source]:
    def note_errors(sample: GpuSample) -> None:
        sampler.note_errors(sample)  # which is made below: it needs the source

    source = make_source(node, simulate, every_s, note_errors)
    window = ActivityWindow(max(WINDOW_S, 3 * every_s), longest_gap_s=max(LONGEST_GAP_S, 3 * every_s))
    sampler = Sampler(node, source, make_eyes(rules, kubernetes), window=window)
    return sampler, source


def page_for(every_s: float) -> Page:
    """Three beats missed, and what it says may not be true any more."""
    return Page(fresh_s=max(FRESH_S, 3 * every_s))


async def first_sample(sampler: Sampler, source: Source) -> NodeSample:
    """The first that has GPUs, or says why it has none."""
    until_s = time.monotonic() + FIRST_SAMPLE_S
    while source.latest() is None and time.monotonic() < until_s:
        if source.answered:
            until_s = min(until_s, time.monotonic() + NO_DRIVER_S)
        await asyncio.sleep(0.05)
    return await sampler.take()


async def keep_collecting(sampler: Sampler, every_s: float, outlet: Outlet, consumers: Sequence[Consumer] = ()) -> None:
    """For ever. The beats are counted on a clock that nobody sets, and one that took long delays no later ones."""
    next_s: float = time.monotonic()
    trouble: str | None = None
    while True:
        began_s = time.monotonic()
        sample = await sampler.take()
        trouble = said_once(sample, trouble)
        outlet.put(sample, time.monotonic() - began_s)
        for consumer in consumers:
            await consumer(sample)
        next_s = max(next_s + every_s, time.monotonic())
        await asyncio.sleep(next_s - time.monotonic())


def said_once(sample: NodeSample, before: str | None) -> str:
    """What could not be read, in the log when it changes; how long it has been so is no change. The first look is too early to tell."""
    words = "; ".join(sample.trouble)
    if before is None:
        return ""
    if re.sub(r"\d+", "", words) != re.sub(r"\d+", "", before):
        log.log(logging.WARNING if words else logging.INFO, "%s", words or "all can be read again")
    return words


async def until_told_to_end(work: Awaitable[None]) -> None:
    """SIGTERM and SIGINT end it, quietly."""
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def end() -> None:
        """Again and again: Python 3.11 loses one that comes just when what is waited for is there."""
        if not task.done():
            task.cancel()
            loop.call_later(END_AGAIN_S, end)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def speak_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def writable_folder(folder: Path) -> Path | None:
    """None: counters begin anew with each start there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder
