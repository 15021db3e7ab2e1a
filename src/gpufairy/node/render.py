"""The page that Prometheus reads, made of one sample: a pure function. Serving it is the exporter's work, writing it the textfile's."""
import platform
from collections.abc import Collection
from enum import StrEnum

from gpufairy import __version__
from gpufairy.core.node_sample import NodeSample
from gpufairy.node.render_collectors import Collected, put_collectors
from gpufairy.node.render_contract import put_contract
from gpufairy.node.render_counters import Counters
from gpufairy.node.render_gpus import put_gpus
from gpufairy.node.render_host import put_host
from gpufairy.node.render_processes import put_processes, put_sessions
from gpufairy.node.render_text import Text, gauge, labelled

BUILD = gauge("fairy_build_info", "Version of the collector and of its Python.")
NODE = gauge("fairy_node_info", "Name of this host.")
SAMPLED = gauge("fairy_sample_timestamp_seconds", "When all this was read.")


class Part(StrEnum):
    CONTRACT = "contract"
    GPUS = "gpus"
    PROCESSES = "processes"
    SESSIONS = "sessions"
    HOST = "host"


ALL_PARTS = frozenset(Part)
TEXTFILE_PARTS = ALL_PARTS - {Part.HOST}  # who reads the textfile is node-exporter, which tells of the host itself


def render(
    sample: NodeSample,
    *,
    xids: Counters | None = None,
    collected: tuple[Collected, ...] = (),
    parts: Collection[Part] = ALL_PARTS,
) -> bytes:
    """What could not be read has no series. `xids` holds the sample's own errors already: a page may be made twice of one sample."""
    text = Text()
    if Part.CONTRACT in parts:
        put_contract(text, sample)
    if Part.GPUS in parts:
        put_gpus(text, sample)
        (xids or Counters()).put(text)
    if Part.PROCESSES in parts:
        put_processes(text, sample)
    if Part.SESSIONS in parts:
        put_sessions(text, sample)
    if Part.HOST in parts:
        put_host(text, sample.host)
    put_collectors(text, sample, collected)
    text.put(BUILD, labelled(version=__version__, python=platform.python_version()), 1)
    text.put(NODE, labelled(node=sample.node), 1)
    text.put(SAMPLED, "", sample.at.timestamp())
    return text.encode()


def gpu_labels(sample: NodeSample) -> dict[str, str]:
    """UUID to label, for `Counters.add`: lost GPUs too, of which an XID is often the last word."""
    return {**{one.uuid: one.label for one in sample.devices}, **{one.uuid: str(one.index) for one in sample.lost if one.uuid is not None}}
