"""The hosts as lines: CPUs, memory, load, what passes through disks and networks, heat, power, GPUs."""
from gpufairy.client.gpu_rows import GpuRow
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.tui.cells import Cell, Column, Line, Piece, SortValue, Table, cell
from gpufairy.tui.order import natural
from gpufairy.tui.rates import Rates
from gpufairy.tui.scene import Scene
from gpufairy.tui.words import NOT_KNOWN, celsius, duration, figure, of_total, percent, rate, watts

STATES = {"ready": ("●", "run"), "watched": ("●", "run"), "drained": ("○", "wait"), "awaited": ("○", "wait"), "silent": ("◆", "bad")}
COLUMNS = (
    Column("host", "HOST", 14, "h"),
    Column("state", "STATE", 10, "s"),
    Column("gpus", "FREE", 6, "f", right=True, falling=True),
    Column("utilisation", "GPU UTIL", 9, "u", right=True, falling=True),
    Column("cpu", "CPU", 5, "c", right=True, falling=True),
    Column("load", "LOAD", 6, "l", right=True, falling=True, spare=2),
    Column("memory", "MEMORY", 13, "m", right=True, falling=True),
    Column("read", "READ", 9, "a", right=True, falling=True, spare=5),
    Column("written", "WRITTEN", 9, "w", right=True, falling=True, spare=6),
    Column("received", "RECEIVED", 9, "v", right=True, falling=True, spare=7),
    Column("sent", "SENT", 9, "n", right=True, falling=True, spare=8),
    Column("temperature", "TEMP", 6, "t", right=True, falling=True, spare=3),
    Column("power", "POWER", 7, "p", right=True, falling=True, spare=1),
    Column("up", "UPTIME", 11, "i", falling=True, spare=4),
)


def host_table(scene: Scene) -> Table:
    by_node: dict[str, list[GpuRow]] = {}
    for row in scene.rows:
        by_node.setdefault(row.node, []).append(row)
    lines = [_line(node, by_node.get(str(node["name"]), []), scene.rates.get(str(node["name"]), Rates())) for node in scene.nodes]
    return Table(COLUMNS, lines)


def _line(node: Record, rows: list[GpuRow], rates: Rates) -> Line:
    name, host = str(node["name"]), node.get("host") or {}
    usable = [row for row in rows if not row.cut]
    free = sum(row.free is True for row in usable)
    memory = memory_used(host)
    temperature = hottest(host)
    power = power_of(host, rows)
    busy = mean_utilisation(usable)
    cells = (
        cell(safe(name)),
        Cell(state_pieces(node)),
        cell(f"{free}/{len(usable)}" if usable else NOT_KNOWN, "run" if free else ""),
        cell(percent(busy)),
        cell(percent(host.get("cpu_used"))),
        cell(figure(host.get("load_1m"))),
        cell(of_total(memory, host.get("memory_total_bytes"))),
        *(cell(rate(value), "soft") for value in (rates.read, rates.written, rates.received, rates.sent)),
        cell(celsius(temperature)),
        cell(watts(power)),
        cell(duration(host.get("up_s"))),
    )
    values: dict[str, SortValue] = {
        "host": natural(name), "state": natural(str(node.get("state"))), "gpus": free if usable else None, "utilisation": busy,
        "cpu": host.get("cpu_used"), "load": host.get("load_1m"), "memory": memory,
        "read": rates.read, "written": rates.written, "received": rates.received, "sent": rates.sent,
        "temperature": temperature, "power": power, "up": host.get("up_s"),
    }  # fmt: skip
    words = [name, str(node.get("state")), str(node.get("pool") or ""), *{row.kind for row in rows}, "free" if free else ""]
    return Line(name, cells, values, " ".join(words).casefold())


def state_pieces(node: Record) -> tuple[Piece, ...]:
    state = safe(node.get("state"))
    dot, style = STATES.get(state, ("·", "soft"))
    return ((f"{dot} {state}", style),)


def memory_used(host: Record) -> float | None:
    total, available = host.get("memory_total_bytes"), host.get("memory_available_bytes")
    return None if total is None or available is None else total - available


def hottest(host: Record) -> float | None:
    return max((one["celsius"] for one in host.get("temperatures_c") or [] if one.get("celsius") is not None), default=None)


def power_of(host: Record, rows: list[GpuRow]) -> float | None:
    """Of its GPUs and its CPUs, as far as it is read."""
    known = [row.power_w for row in rows if not row.instance and row.power_w is not None]
    if host.get("power_w") is not None:
        known.append(host["power_w"])
    return sum(known) if known else None


def mean_utilisation(rows: list[GpuRow]) -> float | None:
    """Of those whose utilisation is known, each by how much of a GPU it is."""
    known = [(row.utilisation, row.part) for row in rows if row.utilisation is not None]
    return sum(value * part for value, part in known) / sum(part for _, part in known) if known else None

