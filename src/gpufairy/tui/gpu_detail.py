"""All about one GPU or MIG instance, as lines: who holds it, its last minutes, the processes on it, every reading."""
from collections.abc import Callable, Sequence

from gpufairy.client.gpu_rows import GpuRow
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.tui.cells import Cell, Piece, cell, grid, joined
from gpufairy.tui.palette import hue_of
from gpufairy.tui.people_view import UNKNOWN_USER, UNNAMED
from gpufairy.tui.sparkline import chart
from gpufairy.tui.words import NOT_KNOWN, celsius, count, figure, megahertz, of_total, percent, size, watts, yes_or_no

Lines = list[tuple[Piece, ...]]
CHART_ROWS = 3
PAIRS_A_LINE = 4

READINGS: tuple[tuple[str, str, Callable[..., str]], ...] = (
    ("utilisation", "utilisation", percent),
    ("memory_utilisation", "memory busy", percent),
    ("sm_active", "SMs active", percent),
    ("sm_occupancy", "SM occupancy", percent),
    ("tensor_active", "tensor cores", percent),
    ("dram_active", "DRAM active", percent),
    ("power_w", "power", watts),
    ("power_limit_w", "power limit", watts),
    ("energy_j", "energy", lambda joules: NOT_KNOWN if joules is None else f"{joules / 3.6e6:,.1f} kWh"),
    ("temperature_c", "temperature", celsius),
    ("memory_temperature_c", "memory temp.", celsius),
    ("slowdown_c", "slows down at", celsius),
    ("fan", "fan", percent),
    ("sm_clock_hz", "SM clock", megahertz),
    ("memory_clock_hz", "memory clock", megahertz),
    ("ecc_corrected", "ECC corrected", count),
    ("ecc_uncorrected", "ECC uncorrected", count),
    ("remapped_corrected", "rows remapped", count),
    ("remapped_uncorrected", "of them uncorr.", count),
    ("remap_pending", "remap pending", yes_or_no),
    ("remap_failed", "remap failed", yes_or_no),
    ("pcie_sent_bytes", "PCIe sent", size),
    ("pcie_received_bytes", "PCIe received", size),
)


def gpu_detail(row: GpuRow, gpu: Record, busy: Sequence[float | None]) -> Lines:
    return [
        _title(row, gpu), _state(row), *held_lines(gpu.get("holders") or []), (), *_chart(busy), (),
        *process_lines(gpu.get("processes") or []), (), *_readings(row, gpu),
    ]  # fmt: skip


def _title(row: GpuRow, gpu: Record) -> tuple[Piece, ...]:
    what = "MIG instance" if row.instance else "GPU"
    simulated: list[Piece] = [(" simulated", "sim")] if row.simulated else []
    named: list[Piece] = [(safe(row.kind if row.simulated else gpu.get("product") or row.kind), ""), *simulated]
    return joined([[(safe(row.node), "bold")], [(f"{what} {row.label}", "bold")], named, [(safe(row.uuid), "soft")]], " · ")


def _state(row: GpuRow) -> tuple[Piece, ...]:
    why = safe(row.why) or "nothing is read of it"
    slowed = "slowed down by " + ", ".join(safe(word) for word in row.throttled_by) if row.throttled_by else ""
    return joined([[_mark(row), (why, "")], [(slowed, "wait")] if slowed else []], " · ")


def _mark(row: GpuRow) -> Piece:
    if row.free is None:
        return "· not known: ", "soft"
    if row.free:
        return "○ free: ", "run"
    return ("○ idle: ", "wait") if row.idle else ("● taken: ", "run")


def _chart(busy: Sequence[float | None]) -> Lines:
    """With a full line and a zero line; what is not known is a gap."""
    rows = chart(busy, CHART_ROWS)
    labels = ["100% ", *["     "] * (CHART_ROWS - 2), "  0% "]
    ruler = f"     {'10 min ago':<{len(busy) - 3}}now"
    return [*(((label, "soft"), (row, "work")) for label, row in zip(labels, rows, strict=True)), ((ruler, "soft"),)]


def _readings(row: GpuRow, gpu: Record) -> Lines:
    pairs = [("memory", of_total(row.memory_used_bytes, row.memory_bytes))]
    pairs += [(label, show(gpu.get(name))) for name, label, show in READINGS]
    return pair_lines(pairs)


def pair_lines(pairs: Sequence[tuple[str, str]], a_line: int = PAIRS_A_LINE) -> Lines:
    """`name value` side by side, read down and then across."""
    down = -(-len(pairs) // a_line)
    rows = []
    for place in range(down):
        row: list[Cell] = []
        for name, value in pairs[place::down]:
            row += [cell(name, "soft"), cell(value, "soft" if value == NOT_KNOWN else "")]
        rows.append(row)
    return grid(rows, right=[False, True] * a_line, gap=3)


def held_lines(holders: Sequence[Record]) -> Lines:
    return [
        joined([
            [("held by", "soft")], [(safe(holder.get("owner")), hue_of(str(holder.get("owner"))))],
            [(safe(holder.get("session") or UNNAMED), "")], [(_share(holder), "soft")],
        ])
        for holder in holders
    ]  # fmt: skip


def _share(holder: Record) -> str:
    return safe(holder.get("profile")) if holder.get("profile") else f"{figure(holder.get('share'))} GPU"


HEADS = ("PID", "USER", "SESSION", "CONTAINER", "UTIL", "GPU MEMORY", "STATE", "COMMAND")
RIGHT = (True, False, False, False, True, True)


def process_lines(processes: Sequence[Record], where: Sequence[str] = ()) -> Lines:
    """`where`: of each, on which GPU it is, where that is not plain."""
    if not processes:
        return [(("no process is seen here", "soft"),)]
    heads = (*HEADS[:1], *(["GPU"] if where else []), *HEADS[1:])
    right = (*RIGHT[:1], *([False] if where else []), *RIGHT[1:])
    rows = [[cell(head, "soft") for head in heads]]
    for number, process in enumerate(processes):
        first, *rest = _process(process)
        rows.append([first, *([cell(where[number])] if where else []), *rest])
    return grid(rows, right=right)


def _process(process: Record) -> list[Cell]:
    user, outside = process.get("user"), process.get("outside")
    active = process.get("active")
    why = safe(process.get("active_why"))
    state = Cell((("idle", "wait"),)) if active is False else cell("active", "run") if active else cell(NOT_KNOWN, "soft")
    return [
        cell(safe(process.get("pid")) or NOT_KNOWN),
        cell(safe(user), hue_of(str(user))) if user else cell(UNKNOWN_USER, "soft"),
        cell("outside", "wait") if outside else cell(safe(process.get("session") or process.get("pod")) or NOT_KNOWN),
        cell(safe(process.get("container")) or NOT_KNOWN, "soft"),
        cell(percent(process.get("utilisation"))),
        cell(size(process.get("memory_bytes"))),
        Cell((*state.pieces, (f" {why}", "soft"))) if why else state,
        cell(safe(process.get("command_line") or process.get("command")) or NOT_KNOWN),
    ]
