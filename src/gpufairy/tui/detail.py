"""What the lower half tells of the chosen line of each view, as lines."""
from collections.abc import Callable

from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.tui.cells import Cell, Piece, cell, grid, joined
from gpufairy.tui.gpu_detail import Lines, gpu_detail, pair_lines, process_lines
from gpufairy.tui.history import History
from gpufairy.tui.host_view import memory_used, state_pieces
from gpufairy.tui.palette import hue_of
from gpufairy.tui.people_view import UNKNOWN_USER, UNNAMED
from gpufairy.tui.scene import Scene, device_of, node_of
from gpufairy.tui.sparkline import sparkline
from gpufairy.tui.words import NOT_KNOWN, celsius, duration, figure, of_total, percent, size, watts

ALMOST_FULL = 0.9  # of a file system: soon somebody's job fails
GONE: Lines = [(("The server no longer tells of it.", "soft"),)]


def detail_of(view: str, scene: Scene, history: History, key: str) -> Lines:
    if view == "gpus":
        found = device_of(scene, key)
        return GONE if found is None else gpu_detail(*found, history.wide(found[0].uuid, scene.at_s))
    if view == "hosts":
        node = node_of(scene, key)
        return GONE if node is None else host_detail(node)
    if view == "users":
        named: list[list[Piece]] = [[(safe(key) or UNKNOWN_USER, f"bold {hue_of(key)}")]]
        return _processes_of(scene, named, lambda _, process: (process.get("user") or "") == key)
    host, user, name = key.split("/", 2)
    title: list[list[Piece]] = [[(safe(name) or UNNAMED, "bold")], [(safe(user), hue_of(user))], [(safe(host), "soft")]]
    return _processes_of(scene, title, lambda node, process: _in_session(node, process, (host, user, name)))


def _in_session(node: str, process: Record, key: tuple[str, str, str]) -> bool:
    return not process.get("outside") and (node, process.get("user") or "", process.get("session") or process.get("pod") or "") == key


def _processes_of(scene: Scene, title: list[list[Piece]], wanted: Callable[[str, Record], bool]) -> Lines:
    found, where = [], []
    for node in scene.nodes:
        for gpu in node.get("gpus") or []:
            for device in (gpu, *(gpu.get("instances") or [])):
                own = [process for process in device.get("processes") or [] if wanted(str(node["name"]), process)]
                found += own
                where += [f"{safe(node['name'])}:{safe(device.get('label'))}"] * len(own)
    return [joined(title, " · "), (), *process_lines(found, where)]


def host_detail(node: Record) -> Lines:
    host = node.get("host") or {}
    driver = [(f"driver {safe(node['driver'])}", "soft")] if node.get("driver") else []
    title = joined([[(safe(node["name"]), "bold")], state_pieces(node), [(safe(node.get("why")), "soft")], driver], " · ")
    trouble: Lines = [((f"◆ {safe(words)}", "bad"),) for words in node.get("trouble") or []]
    if not host:
        return [title, *trouble, (("Nothing is read of this host.", "soft"),)]
    cores = host.get("cores") or []
    return [
        title, *trouble, (), *pair_lines(_pairs(host)), (),
        *([((f"{len(cores)} cores ", "soft"), (sparkline(cores), "work"))] if cores else []),
        *_mounts(host), *_users(host),
    ]  # fmt: skip


def _pairs(host: Record) -> list[tuple[str, str]]:
    pairs = [
        ("CPUs", safe(host.get("cpus")) or NOT_KNOWN), ("CPU used", percent(host.get("cpu_used"))),
        ("load, 1 min", figure(host.get("load_1m"))),
        ("memory", of_total(memory_used(host), host.get("memory_total_bytes"))),
        ("swap", of_total(host.get("swap_used_bytes"), host.get("swap_total_bytes") or None)),
        ("power", watts(host.get("power_w"))), ("up", duration(host.get("up_s"))),
    ]  # fmt: skip
    for name in ("cpu", "memory", "io"):
        pressure = host.get(f"{name}_pressure") or {}
        pairs.append((f"{name} pressure", percent(pressure.get("some"))))
    return [*pairs, *((safe(one.get("sensor")), celsius(one.get("celsius"))) for one in host.get("temperatures_c") or [])]


def _mounts(host: Record) -> Lines:
    rows: list[list[Cell]] = [[cell("FOLDER", "soft"), cell("USED", "soft"), cell("FULL", "soft"), cell("DEVICE", "soft")]]
    for mount in host.get("mounts") or []:
        total, free = mount.get("total_bytes"), mount.get("free_bytes")
        used = None if total is None or free is None else total - free
        full = None if used is None or not total else used / total
        device = f"{safe(mount.get('device'))} {safe(mount.get('kind'))}"
        filled = cell(percent(full), "wait" if (full or 0) > ALMOST_FULL else "")
        rows.append([cell(safe(mount.get("path"))), cell(of_total(used, total)), filled, cell(device, "soft")])
    return [(), *grid(rows, right=(False, True, True))] if len(rows) > 1 else []


def _users(host: Record) -> Lines:
    rows: list[list[Cell]] = [[cell("USER", "soft"), cell("PROCESSES", "soft"), cell("CPUS", "soft"), cell("MEMORY", "soft")]]
    for load in host.get("users") or []:
        user = str(load.get("user"))
        taken = [cell(safe(load.get("processes"))), cell(figure(load.get("cpus"), 1)), cell(size(load.get("memory_bytes")))]
        rows.append([cell(safe(user), hue_of(user)), *taken])
    return [(), *grid(rows, right=(False, True, True, True))] if len(rows) > 1 else []


