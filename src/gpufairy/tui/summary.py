"""The first line: how much is free, how much of the rest works, in figures; and what is wrong, in words."""
from datetime import datetime

from gpufairy.client.gpu_rows import GpuRow
from gpufairy.client.values import safe
from gpufairy.tui.cells import Piece, joined
from gpufairy.tui.host_view import mean_utilisation
from gpufairy.tui.scene import Scene
from gpufairy.tui.words import of_total, percent

BETWEEN = " · "


def summary(scene: Scene) -> tuple[Piece, ...]:
    usable = [row for row in scene.rows if not row.cut]
    if not usable:
        return (("No host has a GPU.", "bold"), (" Add hosts with `fairy agent --server URL` on them.", "soft"))
    free, idle = sum(row.free is True for row in usable), sum(row.idle for row in usable)
    unknown = sum(row.free is None for row in usable)
    what = "GPUs and MIG instances" if any(row.instance for row in usable) else "GPUs" if len(usable) > 1 else "GPU"
    parts: list[list[Piece]] = [[(f"{free} of {len(usable)}", "bold run" if free else "bold"), (f" {what} free", "")]]
    if idle:
        parts.append([(f"{idle} idle", "wait")])
    if unknown:
        parts.append([(f"{unknown} not known", "soft")])
    parts += [[(f"{percent(mean_utilisation(usable))} busy", "")], [(_memory(usable), "")]]
    parts += [[(power, "")]] if (power := _power(scene)) else []
    return joined([*parts, _hosts(scene)], BETWEEN)


def _memory(rows: list[GpuRow]) -> str:
    known = [(used, total) for row in rows if (used := row.memory_used_bytes) is not None and (total := row.memory_bytes) is not None]
    if not known:
        return "memory not known"
    return of_total(sum(used for used, _ in known), sum(total for _, total in known))


def _power(scene: Scene) -> str:
    known = [row.power_w for row in scene.rows if not row.instance and row.power_w is not None]
    return f"{sum(known) / 1000:.1f} kW" if known else ""


def _hosts(scene: Scene) -> list[Piece]:
    silent = sum(node.get("state") == "silent" for node in scene.nodes)
    number = len(scene.nodes)
    said: list[Piece] = [(f"{number} host{'s' if number != 1 else ''}", "")]
    return [*said, (f", {silent} silent", "bad")] if silent else said


def troubles(scene: Scene, most: int = 3) -> list[str]:
    """What the table cannot show; so many lines of it, and how many more there are."""
    shown = list(scene.remarks[:most])
    more = len(scene.remarks) - most
    return [*shown, f"… and {more} more"] if more > 0 else shown


def silence(words: str, since_s: float, now_s: float, *, shown: bool) -> str:
    """What is said while the server does not answer."""
    clock = datetime.fromtimestamp(since_s).strftime("%H:%M:%S")
    then = "; what you see is what was known then" if shown else ""
    return f"◆ since {clock} ({max(0.0, now_s - since_s):.0f} s): {safe(words)}. Trying again{then}."
