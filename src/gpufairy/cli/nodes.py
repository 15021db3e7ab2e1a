"""`fairy node`: the machines, taking one out of use, and letting agents of others report."""
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.when import parse_when
from gpufairy.cli.words import clock_of, print_json, share_words
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_duration, show_size
from gpufairy.core.errors import BadInput

app = group(
    "Hosts: those that sessions run on, and those that are only watched.", "fairy node drain gpu01 --why 'new driver on Friday'",
    means_something_alone=True,
)  # fmt: skip

COLUMNS = ["NODE", "STATE", "UP", "GPUS FREE", "GPUS", "CPU", "MEMORY", "LEFT FOR SESSIONS", "WHY"]
ASKERS = ["NODE", "FROM", "ASKED AT", "KEY", ""]
Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")]


@app.callback(invoke_without_command=True)
def nothing_said(ctx: typer.Context, as_json: AsJson = False) -> None:
    if ctx.invoked_subcommand is None:
        list_nodes(ctx, as_json)


@app.command("list", epilog=example_text("fairy node list"))
def list_nodes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List nodes, with what they have and what is free."""
    with connect(ctx) as fairy:
        nodes = fairy.nodes()
    if as_json:
        print_json({"items": nodes})
    elif not nodes:
        print("No nodes yet. A node appears when an engine offers one: see the log of the server.")
    else:
        print_table(COLUMNS, [_row(node) for node in nodes])


def _row(node: Record) -> list[str | Text]:
    free, gpus = node.get("free") or {}, node.get("gpus") or []
    kinds = ", ".join(dict.fromkeys(safe(gpu.get("kind")) for gpu in gpus))
    memory, host = free.get("memory_bytes"), node.get("host") or {}
    left = f"{safe(free.get('cpus'))} of {safe(node.get('cpus'))} CPUs" if free else ""
    return [
        safe(node["name"]),
        safe(node.get("state")),
        "" if host.get("up_s") is None else show_duration(timedelta(seconds=round(host["up_s"]))),
        share_words(free.get("gpus")) if free else str(sum((gpu.get("now") or {}).get("free") is True for gpu in gpus)),
        with_simulated(f"{len(gpus)} {kinds}".strip(), any(gpu.get("simulated") for gpu in gpus)),
        "" if host.get("cpu_used") is None else f"{100 * host['cpu_used']:.0f}%",
        _memory_used(host),
        left if memory is None else f"{left}, {show_size(int(memory))}",
        "; ".join([safe(node.get("why")), *map(safe, node.get("trouble") or [])]).strip("; "),
    ]


def _memory_used(host: Record) -> str:
    total, available = host.get("memory_total_bytes"), host.get("memory_available_bytes")
    return "" if total is None or available is None else f"{show_size(total - available)} / {show_size(total)}"


@app.command(epilog=example_text("fairy node drain gpu01 --why 'new driver on Friday'"))
def drain(
    ctx: typer.Context,
    node: Node,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Shown to those who wonder.")] = "",
) -> None:
    """Start nothing more on a node; what runs there runs on."""
    with connect(ctx) as fairy:
        fairy.drain(node, why)
    print(f"{safe(node)} takes no more sessions; those on it run on. Undo: fairy node resume {safe(node)}")


@app.command(epilog=example_text("fairy node resume gpu01"))
def resume(ctx: typer.Context, node: Node) -> None:
    """Let sessions start on a node again."""
    with connect(ctx) as fairy:
        fairy.resume(node)
    print(f"{safe(node)} takes sessions again")


@app.command(epilog=example_text("fairy node maintenance gpu01 --from 'fri 9:00' --for 2h --why 'new disk'"))
def maintenance(  # noqa: PLR0917 - options, each with its name
    ctx: typer.Context,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="Name of a host. Without one: list the windows.")] = None,
    start: Annotated[str, typer.Option("--from", metavar="WHEN", help="When it begins, such as 'fri 9:00'.")] = "now",
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="When it ends; or")] = None,
    time: Annotated[str | None, typer.Option("--for", metavar="TIME", help="how long it takes, such as 2h.")] = None,
    why: Annotated[str, typer.Option("--why", "--reason", metavar="TEXT", help="Shown to all who wait for the host.")] = "",
    end: Annotated[str | None, typer.Option("--end", metavar="ID", help="End that window, or call it off.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say when a host is worked on: nothing starts there that would not be over before, and nobody is told that it is away."""
    with connect(ctx) as fairy:
        if end is not None:
            ended = fairy.end_maintenance(end)
            print_json(ended) if as_json else print(f"The window of {safe(ended['node'])} is over.")
        elif node is None:
            print_windows(fairy.maintenance(), as_json)
        else:
            now = datetime.now(UTC)
            at = None if start == "now" else parse_when(start, now, "--from").isoformat()
            to = None if until is None else parse_when(until, now, "--until").isoformat()
            made = fairy.plan_maintenance(node, {"start": at, "end": to, "time": time, "why": why})
            print_json(made) if as_json else print(planned_words(made))


def planned_words(made: Record) -> str:
    until, undo = clock_of(made["end"]), f"Call it off: fairy node maintenance --end {safe(made['id'])}"
    return f"{safe(made['node'])} is worked on from {clock_of(made['start'])} until {until}: {safe(made['why'])}. {undo}"


def print_windows(windows: list[Record], as_json: bool) -> None:
    if as_json:
        print_json({"items": windows})
    elif not windows:
        print("No maintenance is planned. Plan it: fairy node maintenance NODE --from 'fri 9:00' --for 2h --why TEXT")
    else:
        print_table(
            ["ID", "NODE", "FROM", "UNTIL", "", "BY", "WHY"],
            (
                [
                    safe(one["id"]), safe(one["node"]), clock_of(one["start"]), clock_of(one["end"]), "now" if one["open"] else "",
                    safe(one["made_by"]), safe(one["why"]),
                ]
                for one in windows
            ),
        )  # fmt: skip


@app.command(epilog=example_text("fairy node waiting"))
def waiting(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List agents that ask to report, with the fingerprints of their keys."""
    with connect(ctx) as fairy:
        asking = [agent for agent in fairy.agents() if agent["state"] == "waiting"]
    if as_json:
        print_json({"items": asking})
    elif not asking:
        print("No agent asks to be let in. Start one on a host with `fairy agent --server URL`.")
    else:
        print_table(ASKERS, [_asker(agent) for agent in asking])


def _asker(agent: Record) -> list[str | Text]:
    new = "has another key than the one accepted before" if agent.get("replaces") else ""
    return [safe(agent["name"]), safe(agent.get("address")), clock_of(agent.get("asked_at")), safe(agent["fingerprint"]), new]


@app.command(epilog=example_text("fairy node accept gpu07"))
def accept(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE…", help="Names of hosts whose agents ask.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that ask now.")] = False,
    key: Annotated[str | None, typer.Option("--key", metavar="SHA256:…", help="Only if its key is this one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask.")] = False,
) -> None:
    """Let agents of other hosts report here. Compare the key with what the agent printed."""
    if bool(nodes) == every or (key is not None and (every or len(nodes or ()) != 1)):
        raise BadInput("accept: name the hosts, or say --all; --key goes with one host", "See `fairy node waiting`.")
    with connect(ctx) as fairy:
        # Those that are shown, by their keys: another may have asked under the same name by the time that the answer is given.
        keys = _all_that_ask(fairy, yes) if every else dict.fromkeys(nodes or (), key)
        for name, wanted in keys.items():
            agent = fairy.accept_agent(name, wanted)
            print(f"{safe(name)} may report (key {safe(agent['fingerprint'])})")


def _all_that_ask(fairy: Fairy, yes: bool) -> dict[str, str | None]:
    """Anybody may ask to be let in, so whoever says --all sees first whom they let in."""
    asking = [agent for agent in fairy.agents() if agent["state"] == "waiting"]
    if not asking:
        print("No agent asks to be let in.")
        return {}
    print_table(ASKERS, [_asker(agent) for agent in asking])
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("accept --all: no agent was accepted, since there is no terminal to ask on", "Compare the keys, then add --yes.")
    if not yes and not typer.confirm(f"Let {len(asking)} of them report?" if len(asking) > 1 else "Let it report?"):
        return {}
    return {agent["name"]: agent["fingerprint"] for agent in asking}


@app.command(epilog=example_text("fairy node forget gpu07"))
def forget(ctx: typer.Context, node: Node) -> None:
    """Take no more reports of a host. What it told stays in the history."""
    with connect(ctx) as fairy:
        fairy.remove_agent(node)
    print(f"{safe(node)} may not report any more")
