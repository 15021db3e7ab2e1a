"""`fairy smi`: every GPU of every host in one table, MIG instances under their GPU, and who is on each."""
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table, with_simulated
from gpufairy.cli.words import print_json
from gpufairy.client.gpu_rows import GpuRow, OnGpu, gpu_rows, remarks
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import NoSuchThing
from gpufairy.core.names import nearest

COLUMNS = ["NODE", "GPU", "KIND", "TEMP", "POWER", "MEMORY", "UTIL", "USER", "SESSION", "PID", "GPU MEM", "CONTAINER / COMMAND"]
NOT_KNOWN = "-"
HOT_C = 85  # from here on most cards slow down


def _smi(
    ctx: typer.Context,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="One host alone.")] = None,
    free: Annotated[bool, typer.Option("--free", help="Only GPUs that nobody is on.")] = False,
    idle: Annotated[bool, typer.Option("--idle", help="Only GPUs that are taken and compute nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every GPU of every host: how hot, how full, how busy, whose."""
    with connect(ctx) as fairy:
        everything = fairy.nodes()
    nodes = [one for one in everything if node in (None, one["name"])]
    if node is not None and not nodes:
        names = [str(one["name"]) for one in everything]
        raise NoSuchThing(f"no host {node[:60]!r}{nearest(node, names)}", "See `fairy node list`.")
    if as_json:
        print_json({"items": nodes})
        return
    rows = [row for row in gpu_rows(nodes) if (not free or row.free) and (not idle or row.idle)]
    if rows:
        print_table(COLUMNS, [line for row in rows for line in _lines(row)])
    else:
        print("No GPUs to show." if node or free or idle else "No host has a GPU. Add hosts with `fairy agent --server URL` on them.")
    for line in remarks(nodes):
        print(safe(line))


def _lines(row: GpuRow) -> Iterator[list[str | Text]]:
    device: list[str | Text] = [
        safe(row.node) if not row.instance else "",
        f"  {row.label}" if row.instance else row.label,
        with_simulated(safe(row.kind), row.simulated and not row.instance),
        "" if row.instance else _heat(row.temperature_c),
        "" if row.instance else _power(row),
        _memory(row),
        _ratio(row.utilisation),
    ]
    if row.cut and not row.instance:
        yield [*device, "", "", "", "", Text("cut by MIG", "bright_black")]
        return
    if not row.on_it:
        yield [*device, Text("free", "green") if row.free else "", "", "", "", "" if row.free else Text(safe(row.why), "bright_black")]
        return
    for number, one in enumerate(row.on_it):
        yield [*(device if number == 0 else [""] * len(device)), *_on(one)]


def _on(one: OnGpu) -> list[str | Text]:
    user = safe(one.user) if one.user else "not known"
    what = " ".join(part for part in (safe(one.container or one.pod or ""), safe(one.command or "")) if part)
    idle = Text(" idle", "yellow") if one.active is False else Text("")
    return [
        user,
        safe(one.session) if one.session else Text("outside", "yellow") if one.outside else "",
        "" if one.pid is None else str(one.pid),
        "" if one.pid is None else NOT_KNOWN if one.memory_bytes is None else show_size(one.memory_bytes),
        Text.assemble(what, idle),
    ]


def _heat(celsius: float | None) -> str | Text:
    return NOT_KNOWN if celsius is None else Text(f"{celsius:.0f}°C", "red" if celsius >= HOT_C else "")


def _power(row: GpuRow) -> str | Text:
    if row.power_w is None:
        return NOT_KNOWN
    of = "" if row.power_limit_w is None else f"/{row.power_limit_w:.0f}"
    return Text(f"{row.power_w:.0f}{of} W", "yellow" if row.throttled_by else "")


def _memory(row: GpuRow) -> str:
    total = NOT_KNOWN if row.memory_bytes is None else show_size(row.memory_bytes)
    return f"{NOT_KNOWN if row.memory_used_bytes is None else show_size(row.memory_used_bytes)} / {total}"


def _ratio(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{100 * value:.0f}%"


smi = one_command(_smi, "fairy smi --free")
