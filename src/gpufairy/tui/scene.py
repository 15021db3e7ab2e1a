"""A Scene: all that one answer of the server tells, worked out once for every view."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpufairy.client.gpu_rows import GpuRow, gpu_rows, remarks
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.tui.history import History
from gpufairy.tui.rates import Rates


@dataclass(frozen=True, slots=True)
class Scene:
    at_s: float  # since 1970, by this machine's clock
    nodes: Sequence[Record] = ()
    rows: Sequence[GpuRow] = ()
    remarks: tuple[str, ...] = ()
    rates: Mapping[str, Rates] = field(default_factory=dict)  # by host


def scene_of(nodes: Sequence[Record], rates: Mapping[str, Rates], at_s: float) -> Scene:
    return Scene(at_s, nodes, gpu_rows(nodes), tuple(safe(words) for words in remarks(nodes)), rates)


def remember(scene: Scene, history: History) -> None:
    for row in scene.rows:
        history.see(row.uuid, scene.at_s, row.utilisation)


def key_of(row: GpuRow) -> str:
    """Two hosts may call a simulated GPU the same."""
    return f"{row.node}/{row.uuid}/{row.label}"


def device_of(scene: Scene, key: str) -> tuple[GpuRow, Record] | None:
    """The GPU or the instance on that line, as a row and as the server told it."""
    row = next((row for row in scene.rows if key_of(row) == key), None)
    if row is None:
        return None
    for node in scene.nodes:
        if node["name"] == row.node:
            for gpu in node.get("gpus") or []:
                for one in (gpu, *(gpu.get("instances") or [])):
                    if one.get("uuid") == row.uuid:
                        return row, one
    return None


def node_of(scene: Scene, name: str) -> Record | None:
    return next((node for node in scene.nodes if node["name"] == name), None)
