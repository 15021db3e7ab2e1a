"""What agents send: their samples, and the key by which they want to be known. Sizes are bounded before anything is kept."""
import base64
import binascii
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpufairy.core.believe import in_our_time
from gpufairy.core.errors import BadInput
from gpufairy.core.names import node_name
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.sample_check import sample_fault
from gpufairy.wire.read import Strict, sentence

MOST_SAMPLES = 64  # of one report: the newest, and some of what could not be sent before
KEY_BYTES = 32  # of an Ed25519 public key


class ReportBody(BaseModel):
    """Unknown fields are left alone: an agent may be newer than its server."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, str_max_length=1024)

    version: str = ""
    samples: tuple[NodeSample, ...] = Field(min_length=1, max_length=MOST_SAMPLES)


class HelloBody(Strict):
    name: str = Field(max_length=100)
    key: str = Field(max_length=100)  # base64

    def to_key(self) -> bytes:
        try:
            key = base64.b64decode(self.key, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise BadInput(f"key: expected {KEY_BYTES} bytes of an Ed25519 public key in base64", "Start the agent with `fairy agent`.")
        return key

    def to_name(self) -> str:
        return node_name(self.name)


class AcceptBody(Strict):
    fingerprint: str | None = Field(default=None, max_length=100)  # None: whoever asks under that name now


def read_report(body: bytes, node: str, now: datetime) -> tuple[ReportBody, tuple[NodeSample, ...]]:
    """The samples of it that can be believed are all of them, or none: an agent that sends nonsense is told so."""
    try:
        report = ReportBody.model_validate_json(body)
    except ValidationError as error:
        raise BadInput(f"report of {node}: {sentence(ReportBody, error)}", "Is the agent of the same version as the server?") from None
    if any(sample.at.utcoffset() is None for sample in report.samples):
        raise BadInput(f"report of {node}: at: the time says no zone", "Send times in UTC.")
    samples = in_our_time(report.samples, now)
    for sample in samples:
        if sample.node != node:
            raise BadInput(f"report of {node}: a sample says it is of {sample.node[:60]!r}", "An agent speaks for its own host alone.")
        if (fault := sample_fault(sample, now)) is not None:
            raise BadInput(f"report of {node}: {fault}", "Look at that host's clock and at the agent's log.")
    return report, samples
