"""The nodes of a simulation: as written (`4x8xA100-80GB`), as a file lists them, or as the server has them."""
import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from gpufairy.client.protocol import Record
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.mig import MigInstance
from gpufairy.core.node import Gpu, Node
from gpufairy.core.replay_cells import cpus_of, memory_of, number_of
from gpufairy.core.replay_job import refuse
from gpufairy.core.replay_trace import plain, split_unit
from gpufairy.core.share import MOST_GPUS, PARTS
from gpufairy.devices.kinds import ALIASES, MEMORY_MIB, MIB, kind_named
from gpufairy.devices.mig_tables import mig_tables

# What is not said of a node, in proportion to its GPUs: what servers that are sold with them have.
CPUS_MILLI_A_GPU, MEMORY_BYTES_A_GPU = 16_000, 128 * 2**30
UNKNOWN_GPU_BYTES = 16 * 2**30  # of a kind that a file names and we do not know: a part of it is the same part either way
MOST_NODES = 20_000
HOW_TO_WRITE = "Write nodes x GPUs x kind, such as 4x8xA100-80GB,2x4xV100."
FILE_COLUMNS = {
    "gpus": ("gpus", "gpu", "num_gpu", "gpu_count"), "kind": ("kind", "model", "gpu_kind", "gpu_model"),
    "name": ("name", "node", "sn", "host"), "cpus": ("cpus", "cpu"), "memory": ("memory", "mem"), "pool": ("pool",),
}  # fmt: skip
FILE_UNITS: Mapping[str, Mapping[str, float]] = {"cpus": {"milli": 1e-3}, "memory": {"bytes": 1, "mib": MIB, "gib": 2**30, "gb": 10**9}}
_PART = re.compile(r"([0-9]{1,5})[xX]([0-9]{1,4})[xX]([A-Za-z][A-Za-z0-9-]{0,30})")


def parse_nodes(text: str) -> list[Node]:
    nodes: list[Node] = []
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadInput(f"--nodes: {shown(part)} is no nodes, GPUs and kind", HOW_TO_WRITE)
        kind, count, gpus = kind_named(match[3]), int(match[1]), int(match[2])
        if kind is None:
            near = get_close_matches(match[3], [*MEMORY_MIB, *ALIASES], n=3)
            known = f"Did you mean {' or '.join(near)}?" if near else "List them in a file: --cluster FILE."
            raise BadInput(f"--nodes: {shown(match[3])} is no kind of GPU that is known here", known)
        if not 1 <= count <= MOST_NODES - len(nodes) or not 1 <= gpus <= MOST_GPUS:
            raise BadInput(f"--nodes: {shown(part)} is not between 1 and {MOST_NODES} nodes of 1 to {MOST_GPUS} GPUs", HOW_TO_WRITE)
        nodes += [a_node(f"node{len(nodes) + number:03d}", gpus, kind) for number in range(1, count + 1)]
    return nodes


def a_node(
    name: str, gpus: int, kind: str, *, cpus_milli: int | None = None, memory_bytes: int | None = None, pool: str | None = None
) -> Node:  # fmt: skip
    gpu_bytes = MEMORY_MIB[kind] * MIB if kind in MEMORY_MIB else UNKNOWN_GPU_BYTES
    there = tuple(Gpu(index, f"GPU-{name}-{index}", kind, gpu_bytes, simulated=True) for index in range(gpus))
    portion = max(1, gpus)
    return Node(name, cpus_milli or portion * CPUS_MILLI_A_GPU, memory_bytes or portion * MEMORY_BYTES_A_GPU, there, pool=pool)


def read_nodes(lines: Iterable[str], what: str) -> list[Node]:
    """A CSV with gpus and kind, and if it has them name, cpus, memory and pool; openb's list of nodes is one."""
    rows = csv.reader(lines)
    names = [plain(name) for name in next(rows, [])]
    places = {field: found for field in FILE_COLUMNS if (found := place_of(field, names)) is not None}
    if "gpus" not in places:
        raise BadInput(f"{what}: line 1: no column for gpus", f"Name its columns {', '.join(FILE_COLUMNS)}.")
    nodes, faults = list[Node](), list[tuple[int, str]]()
    for row in rows:
        if len(nodes) > MOST_NODES:
            raise BadInput(f"{what}: has more than {MOST_NODES} nodes", "Leave some out.")
        try:
            nodes += [node_of_row(row, places, len(nodes) + 1)] if any(row) else []
        except BadInput as error:
            faults.append((rows.line_num, str(error)))
    seen = Counter(node.name for node in nodes)
    faults += [(1, f"{count} nodes are named {shown(name)}") for name, count in seen.items() if count > 1]
    if faults:
        refuse(faults, what)
    if not nodes:
        raise BadInput(f"{what}: found no nodes", "Give it at least one line below the names of its columns.")
    return nodes


def place_of(field: str, names: Sequence[str]) -> tuple[int, float] | None:
    """Where that column is, and the unit of its bare numbers."""
    for place, name in enumerate(names):
        base, unit = split_unit(name, FILE_UNITS.get(field, {}))
        if name in FILE_COLUMNS[field] or base in FILE_COLUMNS[field]:
            return place, unit
    return None


def node_of_row(row: Sequence[str], places: dict[str, tuple[int, float]], number: int) -> Node:
    cells = {field: (row[place].strip() if place < len(row) else "", unit) for field, (place, unit) in places.items()}
    gpus = number_of(cells["gpus"][0])
    if gpus is None or gpus != int(gpus) or not 0 <= gpus <= MOST_GPUS:
        raise BadInput(f"gpus: {shown(cells['gpus'][0])} is no number of GPUs up to {MOST_GPUS}")
    name, kind, pool = (cells.get(field, ("", 1))[0] for field in ("name", "kind", "pool"))
    cpus, memory = cpus_of(*cells.get("cpus", ("", 1))), memory_of(*cells.get("memory", ("", 1)))
    is_called, is_kind = name or f"node{number:03d}", kind_named(kind) or kind or "GPU"
    return a_node(is_called, int(gpus), is_kind, cpus_milli=cpus, memory_bytes=memory, pool=pool or None)


def nodes_of_server(found: Iterable[Record]) -> list[Node]:
    """Those that sessions run on, as `GET /nodes` tells them; drained or silent ones as if they were ready."""
    nodes = [
        Node(
            node["name"], int(node["cpus"] * 1000), int(node["memory_bytes"]),
            tuple(gpu_of_server(gpu) for gpu in node["gpus"]), pool=node.get("pool"),
        )
        for node in found
        if node.get("runs_sessions")
    ]  # fmt: skip
    if not nodes:
        raise BadInput("the server has no node that sessions run on", "Say which there are: --nodes 4x8xA100-80GB.")
    return nodes


def gpu_of_server(gpu: Record) -> Gpu:
    table = mig_tables().get(gpu["kind"]) if gpu.get("mig") else None
    cut = gpu.get("instances") if table is not None else None
    instances = None if cut is None else tuple(
        MigInstance(one["profile"], one["start"], one["size"], f"{gpu['uuid']}-{place}") for place, one in enumerate(cut)
    )  # fmt: skip
    fgpu_parts = int(float(gpu.get("fgpu") or 1) * PARTS)
    return Gpu(gpu["index"], gpu["uuid"], gpu["kind"], int(gpu["memory_bytes"]), True, fgpu_parts, table, instances)
