"""`fairy simulate`: a trace, or the server's own past, replayed by one or several policies. Local: no session is touched."""
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TextIO

import typer

from gpufairy.cli.exits import REFUSED, say
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.simulate_history import HISTORY, quotas_of_server, trace_of, weights_of_server, with_quotas
from gpufairy.cli.simulate_nodes import nodes_of_server, parse_nodes, read_nodes
from gpufairy.cli.simulate_print import Told, print_told, told_to_plain
from gpufairy.cli.words import print_json
from gpufairy.core.amounts import parse_duration, show_count, shown
from gpufairy.core.cluster import Weights
from gpufairy.core.errors import BadInput, NoSuchThing
from gpufairy.core.node import Node
from gpufairy.core.replay import replay
from gpufairy.core.replay_figures import figures_of
from gpufairy.core.replay_job import Trace, with_limits
from gpufairy.core.replay_rules import Rules, parse_rules
from gpufairy.core.replay_trace import read_trace

MOST_FACTOR = 1000.0

TraceFile = Annotated[str, typer.Argument(metavar="TRACE", help="CSV with submit, duration, gpus, user; an openb pod list; or `history`.")]
PolicyText = Annotated[str, typer.Option("--policy", metavar="P", help="fair, fifo, fifo-strict, fair-no-backfill; or fair,fifo: each.")]
NodesText = Annotated[str | None, typer.Option("--nodes", metavar="NODES", help="4x8xA100-80GB,2x4xV100. Else the server's own.")]
ClusterFile = Annotated[Path | None, typer.Option("--cluster", metavar="FILE", help="CSV of nodes: gpus, kind, name, cpus, memory, pool.")]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Of `history`: how far back.")]
Share = Annotated[list[str] | None, typer.Option("--share", metavar="WHO=N", help="team:nlp=2, user:ann=0.5: else 1 each. Repeatable.")]
Factor = Annotated[
    float | None,
    typer.Option("--limit-factor", metavar="N", help="As if whoever set no time limit had asked for N times what it takes."),
]


def _simulate(
    ctx: typer.Context, trace: TraceFile, *, policy: PolicyText = "fair", nodes: NodesText = None, cluster: ClusterFile = None,
    since: Since = "30d", share: Share = None, limit_factor: Factor = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Try a policy on a trace before you switch: waiting, completion, use of the GPUs, fairness. Nothing is started."""
    rules, weights = parse_rules(policy), weights_of(share or ())
    coming = limited(trace_named(ctx, trace, since), limit_factor)
    there = nodes_named(ctx, nodes, cluster)
    if trace == HISTORY:
        rules, weights = with_rights_of_server(ctx, rules, weights)
    told = []
    for one in rules:
        if sys.stderr.isatty():
            say(f"replaying {show_count(len(coming.jobs), 'job')} by {one.name} ...")
        began_s = time.monotonic()
        replayed = replay(coming, there, one, weights)
        told.append(Told(one.name, figures_of(replayed, weights), replayed.never, time.monotonic() - began_s))
    if as_json:
        print_json(told_to_plain(trace, coming, there, told))
    else:
        print_told(trace, coming, there, told)
    if all(one.figures is None for one in told):
        raise typer.Exit(REFUSED)


def trace_named(ctx: typer.Context, name: str, since: str) -> Trace:
    if name == HISTORY:
        begin = datetime.now(UTC) - parse_duration(since, "--since")
        with connect(ctx) as fairy:
            return trace_of(fairy.sessions(ended=True, all_users=True), begin)
    with opened(name) as lines:
        return read_trace(lines, name)


def with_rights_of_server(ctx: typer.Context, rules: list[Rules], said: Weights) -> tuple[list[Rules], Weights]:
    """Its shares and quotas, as they are now; what is said here goes before them."""
    with connect(ctx) as fairy:
        theirs, quotas = weights_of_server(fairy.teams(), fairy.users()), quotas_of_server(fairy.quotas())
    return [with_quotas(one, quotas) for one in rules], Weights({**theirs.teams, **said.teams}, {**theirs.users, **said.users})


def nodes_named(ctx: typer.Context, text: str | None, file: Path | None) -> list[Node]:
    if text is not None and file is not None:
        raise BadInput("found both --nodes and --cluster", "Say the nodes in one of them.")
    if text is not None:
        return parse_nodes(text)
    if file is not None:
        with opened(str(file)) as lines:
            return read_nodes(lines, str(file))
    with connect(ctx) as fairy:
        return nodes_of_server(fairy.nodes())


@contextmanager
def opened(name: str) -> Iterator[TextIO]:
    """`-`: what is piped in."""
    if name == "-":
        yield sys.stdin
        return
    try:
        with open(name, encoding="utf-8", errors="replace", newline="") as lines:
            yield lines
    except FileNotFoundError:
        raise NoSuchThing(f"no file {shown(name)}", f"Name a CSV of jobs, or `{HISTORY}` for the server's own past.") from None
    except OSError as error:
        raise BadInput(f"{shown(name)} cannot be read: {error.strerror}", "Name a file that you may read.") from error


def weights_of(written: Sequence[str]) -> Weights:
    teams: dict[str, float] = {}
    users: dict[str, float] = {}
    for one in written:
        who, _, number = one.partition("=")
        kind, _, name = who.partition(":")
        weight = factor_of(number)
        if kind not in ("team", "user") or not name or weight is None:
            raise BadInput(f"--share: {shown(one)} is no share", "Write team:NAME=2 or user:NAME=0.5, more than 0.")
        (teams if kind == "team" else users)[name] = weight
    return Weights(teams, users)


def factor_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number <= MOST_FACTOR else None  # also not NaN


def limited(trace: Trace, factor: float | None) -> Trace:
    if factor is None:
        return trace
    if not 1 <= factor <= MOST_FACTOR:
        raise BadInput(f"--limit-factor: {factor:g} is not between 1 and {MOST_FACTOR:g}", "Write 1 for exact limits, 2 for generous ones.")
    return with_limits(trace, factor)


simulate = one_command(
    _simulate,
    "fairy simulate jobs.csv --nodes 4x8xA100-80GB --policy fair,fifo\nfairy simulate history --policy fair,fair:half_life=1d",
)  # fmt: skip
