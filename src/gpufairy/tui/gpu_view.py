"""The GPUs as lines: each GPU, its instances under it; how busy, how full, how hot, whose."""
from collections.abc import Sequence

from gpufairy.client.gpu_rows import GpuRow, OnGpu
from gpufairy.client.values import safe
from gpufairy.tui.cells import NOTHING, Cell, Column, Line, Piece, Table, cell, cut, joined
from gpufairy.tui.history import PARTS, History
from gpufairy.tui.order import natural
from gpufairy.tui.palette import hue_of
from gpufairy.tui.scene import Scene, key_of
from gpufairy.tui.sparkline import sparkline
from gpufairy.tui.words import celsius, of_total, percent, watts

HOT_C = 85  # from here on most cards slow down
BAR = 10
MOST_USERS, MOST_PROCESSES = 3, 3  # named on one line; the rest are counted
LONGEST_WORD = 24

COLUMNS = (
    Column("host", "HOST", 12, "h"),
    Column("gpu", "GPU", 7, "g"),
    Column("kind", "KIND", 12, "k", spare=4),
    Column("utilisation", "UTIL", 6, "u", right=True, falling=True),
    Column("history", "LAST 10 MIN", PARTS, spare=1),
    Column("memory", "MEMORY", BAR + 14, "m", falling=True),
    Column("temperature", "TEMP", 6, "t", right=True, falling=True, spare=2),
    Column("power", "POWER", 10, "p", right=True, falling=True, spare=3),
    Column("user", "USER", 14, "e"),
    Column("what", "ON IT", 12),
)


def gpu_table(scene: Scene, history: History) -> Table:
    lines, parent = [], None
    for row in scene.rows:
        if not row.instance:
            parent = key_of(row)
        lines.append(_line(row, history.narrow(row.uuid, scene.at_s), parent if row.instance else None))
    return Table(COLUMNS, lines)


def _line(row: GpuRow, busy: Sequence[float | None], parent: str | None) -> Line:
    users = users_of(row)
    cells = (
        NOTHING if row.instance else cell(safe(row.node)),
        cell(f" └ {row.label}" if row.instance else row.label, "soft" if row.instance else ""),
        cell(safe(row.kind), "soft"),
        cell(percent(row.utilisation), _busy_style(row)),
        cell(sparkline(busy), "work"),
        Cell((*memory_bar(row, BAR), (" ", ""), (of_total(row.memory_used_bytes, row.memory_bytes), ""))),
        NOTHING if row.instance else cell(celsius(row.temperature_c), "bold bad" if (row.temperature_c or 0) >= HOT_C else ""),
        NOTHING if row.instance else cell(watts(row.power_w, row.power_limit_w), "wait" if row.throttled_by else ""),
        Cell(_users(row, users)),
        Cell(_what(row)),
    )
    memory = None if row.memory_used_bytes is None else float(row.memory_used_bytes)
    values = {
        "host": natural(row.node), "gpu": natural(row.label), "kind": natural(row.kind), "utilisation": row.utilisation, "memory": memory,
        "temperature": row.temperature_c, "power": row.power_w, "user": natural(users[0]) if users else None,
    }  # fmt: skip
    return Line(key_of(row), cells, values, _words(row), under=parent)


def users_of(row: GpuRow) -> list[str]:
    return list(dict.fromkeys(one.user for one in row.on_it if one.user))


def _busy_style(row: GpuRow) -> str:
    return "wait" if row.idle else "soft" if not row.utilisation else ""


def memory_bar(row: GpuRow, width: int) -> tuple[Piece, ...]:
    """Its width is the memory of the GPU; a segment in each user's hue; grey what is used and nobody's; hatched what is free."""
    if row.memory_bytes is None or row.memory_used_bytes is None or row.memory_bytes <= 0:
        return ((" " * width, ""),)
    by_user: dict[str, int] = {}
    for one in row.on_it:
        if one.user and one.memory_bytes:
            by_user[one.user] = by_user.get(one.user, 0) + one.memory_bytes
    pieces: list[Piece] = []
    ended, drawn = 0, 0
    nobodys = ("soft", row.memory_used_bytes - sum(by_user.values()))
    for style, amount in (*((hue_of(user), amount) for user, amount in by_user.items()), nobodys):
        ended += max(0, amount)
        places = min(width, round(width * ended / row.memory_bytes)) - drawn
        if places > 0:
            pieces.append(("█" * places, style))
            drawn += places
    return (*pieces, ("░" * (width - drawn), "idle")) if drawn < width else tuple(pieces)


def _users(row: GpuRow, users: list[str]) -> tuple[Piece, ...]:
    if row.cut:
        return ()
    if not users:
        if row.free:
            return (("free", "run"),)
        return (("not known", "soft"),) if row.free is None or row.on_it else ()
    more = f" +{len(users) - MOST_USERS}" if len(users) > MOST_USERS else ""
    return (*joined([[(safe(user), hue_of(user))] for user in users[:MOST_USERS]], ", "), *([(more, "soft")] if more else []))


def _what(row: GpuRow) -> tuple[Piece, ...]:
    simulated: list[Piece] = [("simulated", "sim")] if row.simulated and not row.instance else []
    if row.cut:
        return joined([simulated, [("cut by MIG", "soft")]])
    if not row.on_it:
        return joined([simulated, [] if row.free else [(safe(row.why), "soft")]])
    idle: list[Piece] = [("idle", "bold wait")] if row.idle else []
    more: list[Piece] = [(f"+{len(row.on_it) - MOST_PROCESSES}", "soft")] if len(row.on_it) > MOST_PROCESSES else []
    return joined([simulated, idle, *(_process(one) for one in row.on_it[:MOST_PROCESSES]), more])


def _process(one: OnGpu) -> list[Piece]:
    where = cut(safe(one.session or one.container or one.pod), LONGEST_WORD)
    outside: list[Piece] = [("outside", "wait")] if one.outside else []
    named: list[Piece] = [(where, "")] if where else []
    command: list[Piece] = [(cut(safe(one.command), LONGEST_WORD), "soft")] if one.command else []
    return list(joined([outside, named, command]))


def _words(row: GpuRow) -> str:
    states = ["free" if row.free else "", "idle" if row.idle else "", "simulated" if row.simulated else "", *row.throttled_by]
    found = [row.node, row.label, row.kind, row.uuid, *states]
    for one in row.on_it:
        named = (one.user, one.session, one.container, one.pod, one.command, one.pid, "outside" if one.outside else None)
        found += [str(word) for word in named if word]
    return " ".join(found).casefold()
