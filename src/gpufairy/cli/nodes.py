"""`fairy node`: the machines, and taking one out of use."""
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.words import print_json, safe, share_words
from gpufairy.client.protocol import Record
from gpufairy.core.amounts import show_size

app = group("Nodes: the machines that sessions run on.", "fairy node drain gpu01 --why 'new driver on Friday'")

Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of a node.")]


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
        print_table(["NODE", "STATE", "GPUS FREE", "GPUS", "CPUS FREE", "MEMORY FREE", "WHY"], [_row(node) for node in nodes])


def _row(node: Record) -> list[str | Text]:
    free, gpus = node.get("free") or {}, node.get("gpus") or []
    kinds = ", ".join(dict.fromkeys(safe(gpu.get("kind")) for gpu in gpus))
    memory = free.get("memory_bytes")
    return [
        safe(node["name"]),
        safe(node.get("state")),
        share_words(free.get("gpus")),
        with_simulated(f"{len(gpus)} {kinds}".strip(), any(gpu.get("simulated") for gpu in gpus)),
        f"{safe(free.get('cpus'))} of {safe(node.get('cpus'))}",
        "" if memory is None else show_size(int(memory)),
        safe(node.get("why")),
    ]


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
