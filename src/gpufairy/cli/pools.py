"""`fairy pool`: nodes in a cloud that come when they are asked for, and go when nobody uses them."""
from datetime import timedelta
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_duration, show_size

EXAMPLE = "fairy pool add train-gpu --cloud eks --cluster lab --instance g5.xlarge --min 0 --max 4 --dry-run"
app = group("Pools: GPU nodes in a cloud that come when they are asked for, and go when nobody uses them.", EXAMPLE)

COLUMNS = ["NAME", "STATE", "NODES", "INSTANCE", "GPUS EACH", "COMES IN", "NOW", "AT MOST"]
Name = Annotated[str, typer.Argument(metavar="POOL", help="Name of a pool; its nodes have the label role=POOL.")]
CloudOption = Annotated[str, typer.Option("--cloud", metavar="eks|gke|karpenter", help="Who makes the nodes.")]
Cluster = Annotated[str, typer.Option("--cluster", metavar="C", help="Of eks its name; of gke PROJECT/LOCATION/NAME.")]
Instance = Annotated[str, typer.Option("--instance", metavar="TYPE", help="As the cloud calls it: g5.xlarge, g2-standard-4.")]
Least = Annotated[int, typer.Option("--min", metavar="N", help="Nodes that are always there.")]
Most = Annotated[int, typer.Option("--max", metavar="N", help="Nodes at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be made, and what it costs.")]
Region = Annotated[str | None, typer.Option("--region", help="Of eks. Else the server's own.")]
NodeRole = Annotated[str | None, typer.Option("--node-role", metavar="ARN", help="Of eks: the nodes' IAM role. Else as other nodes have.")]
NodeClass = Annotated[str | None, typer.Option("--node-class", metavar="NAME", help="Of karpenter. Else default.")]
Capacity = Annotated[str | None, typer.Option("--capacity", metavar="on-demand|spot", help="Else on-demand.")]
EmptyAfter = Annotated[str | None, typer.Option("--empty-after", metavar="5m", help="Of karpenter: when an empty node goes.")]
Gpus = Annotated[int | None, typer.Option("--gpus", metavar="N", help="Of a machine that is not known here, as the next four.")]
GpuKind = Annotated[str | None, typer.Option("--gpu-kind", metavar="KIND", help="Such as A10.")]
GpuMemory = Annotated[str | None, typer.Option("--gpu-memory", metavar="SIZE", help="Such as 24GiB.")]
Cpus = Annotated[str | None, typer.Option("--cpus", metavar="N", help="Of the machine.")]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Of the machine.")]
Price = Annotated[float | None, typer.Option("--price", metavar="DOLLARS", help="An hour of one, if not the list price.")]


@app.command(epilog=example_text(EXAMPLE))
def add(
    ctx: typer.Context, name: Name, *, cloud: CloudOption, instance: Instance, cluster: Cluster = "", least: Least = 0, most: Most = 4,
    dry_run: DryRun = False, region: Region = None, node_role: NodeRole = None, node_class: NodeClass = None, capacity: Capacity = None,
    empty_after: EmptyAfter = None, gpus: Gpus = None, gpu_kind: GpuKind = None, gpu_memory: GpuMemory = None, cpus: Cpus = None,
    memory: Memory = None, price: Price = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a pool, or give it other bounds. What is there already is left as it is."""
    asked = {
        "name": name, "cloud": cloud, "cluster": cluster, "instance": instance, "min": least, "max": most, "dry_run": dry_run,
        "region": region, "node_role": node_role, "node_class": node_class, "capacity": capacity, "empty_after": empty_after,
        "gpus": gpus, "gpu_kind": gpu_kind, "gpu_memory": gpu_memory, "cpus": cpus, "memory": memory, "price": price,
    }  # fmt: skip
    with connect(ctx) as fairy:
        made = fairy.add_pool(asked)
    if as_json:
        print_json(made)
        return
    print_plan(made)
    if dry_run:
        print("Nothing was made. Leave out --dry-run to make it.")
    else:
        print(state_words(made))


@app.command("list", epilog=example_text("fairy pool list"))
def list_pools(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List pools: how many nodes are there, how long one takes to come, what they cost."""
    with connect(ctx) as fairy:
        pools = fairy.pools()
    if as_json:
        print_json({"items": pools})
    elif not pools:
        print(f"No pools. Try: {EXAMPLE}")
    else:
        print_table(COLUMNS, [_row(pool) for pool in pools])
        for pool in pools:
            if pool["trouble"]:
                print(f"{safe(pool['name'])}: {safe(pool['trouble'])}")


@app.command(epilog=example_text("fairy pool show train-gpu"))
def show(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show one pool, and all that was made for it."""
    with connect(ctx) as fairy:
        pool = fairy.pool(name)
    if as_json:
        print_json(pool)
        return
    print_pairs([(column.lower(), text) for column, text in zip(COLUMNS, _row(pool), strict=True)])
    print_plan(pool)
    if pool["trouble"]:
        print(safe(pool["trouble"]))


@app.command(epilog=example_text("fairy pool remove train-gpu"))
def remove(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Take a pool away, with all that was made for it. Not while sessions are on its nodes."""
    with connect(ctx) as fairy:
        pool = fairy.remove_pool(name)
    if as_json:
        print_json(pool)
        return
    waits = f": {safe(pool['trouble'])}" if pool["trouble"] else ""
    print(f"Pool {safe(name)} is being removed{waits}. See: fairy pool list")


def print_plan(pool: Record) -> None:
    machine = f"{pool['gpus']} x {safe(pool['gpu_kind'])} ({show_size(int(pool['gpu_memory_bytes']))})"
    host = f"{pool['cpus']:g} CPUs, {show_size(int(pool['memory_bytes']))}"
    print(f"Pool {safe(pool['name'])}: {pool['min']} to {pool['max']} nodes {safe(pool['instance'])}, each {machine}, {host}.")
    for step in pool["steps"]:
        details = ", ".join(f"{safe(name)} {safe(value)}" for name, value in step["details"].items())
        thing = f"{safe(step['what'])} {safe(step['name'])}"
        print(f"  {'there  ' if step['there'] else 'to make'}  {thing}" + (f": {details}" if details else ""))
    source = f" ({safe(pool['price_of'])})" if pool["price_of"] else ""
    cost = pool["cost"]
    if pool["price_hour"] is None:
        print("It costs what the cloud asks: price not known here. Say it by --price.")
    else:
        print(f"It costs {safe(cost['least'])} at rest, and {safe(cost['most'])} at most{source}.")


def state_words(pool: Record) -> str:
    name = safe(pool["name"])
    if pool["state"] == "ready":
        return f"Pool {name} is ready: ask for it by --pool {name}, or in Kubernetes by nodeSelector role: {name}."
    waits = f" {safe(pool['trouble'])}" if pool["trouble"] else ""
    return f"Pool {name} is being made.{waits} See: fairy pool show {name}"


def _row(pool: Record) -> list[str]:
    nodes = f"{pool['nodes']} of {pool['max']}" + (f", {pool['coming']} coming" if pool["coming"] else "")
    boot = show_duration(timedelta(seconds=pool["boot_s"])) + ("" if pool["boot_learnt"] else " (guess)")
    return [
        safe(pool["name"]), safe(pool["state"]), nodes, safe(pool["instance"]), f"{pool['gpus']} x {safe(pool['gpu_kind'])}", boot,
        safe(pool["cost"]["now"]), safe(pool["cost"]["most"]),
    ]  # fmt: skip
