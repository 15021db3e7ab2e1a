"""What agents send: their samples, and the key by which they want to be known. Sizes are bounded before anything is kept."""
import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpufairy.core.believe import Heard, clock_wrong_by, put_right
from gpufairy.core.errors import BadInput
from gpufairy.core.names import node_name
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.sample_check import sample_fault
from gpufairy.wire.read import Strict, sentence

MOST_SAMPLES = 64  # of one report: the newest, and some of what could not be sent before
LONGEST_TIME, LONGEST_WHY = 40, 300  # characters, of what is told about a sample that is refused
KEY_BYTES = 32  # of an Ed25519 public key


class ReportBody(BaseModel):
    """Unknown fields are left alone: an agent may be newer than its server."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, str_max_length=1024)

    version: str = ""
    samples: tuple[NodeSample, ...] = Field(min_length=1, max_length=MOST_SAMPLES)


class Envelope(BaseModel):
    """The same, with its samples not looked into."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", str_max_length=1024)

    version: str = ""
    samples: tuple[dict[str, Any], ...] = Field(min_length=1, max_length=MOST_SAMPLES)


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


@dataclass(frozen=True, slots=True)
class RefusedSample:
    at: str | None  # as it was sent, if it was sent at all
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    version: str
    heard: tuple[Heard, ...]  # what is believed, oldest first
    live: NodeSample | None  # the one of now; None: it cannot be
    refused: tuple[RefusedSample, ...]
    clock_wrong_by: timedelta


def read_report(body: bytes, node: str, now: datetime, clock_wrong_before: timedelta = timedelta()) -> Report:
    """Each sample is believed or not by itself: one that cannot be must not cost those that were kept for days."""
    version, samples = samples_of(body, node)
    live = samples[-1]
    wrong = clock_wrong_before
    if isinstance(live, NodeSample):
        wrong = clock_wrong_by(live.at, now, clock_wrong_before)
    judged = [judge(sample, node, now, wrong) for sample in samples]
    last = judged[-1]
    return Report(
        version, tuple(one for one in judged if isinstance(one, Heard)), last.sample if isinstance(last, Heard) else None,
        tuple(one for one in judged if isinstance(one, RefusedSample)), wrong,
    )  # fmt: skip


def samples_of(body: bytes, node: str) -> tuple[str, list[NodeSample | RefusedSample]]:
    """Read in one go where nothing is wrong, which is nearly always; else one by one. Raises BadInput for what is no report at all."""
    try:
        report = ReportBody.model_validate_json(body)
        return report.version, [zoned(sample) for sample in report.samples]
    except ValidationError:
        pass
    try:
        envelope = Envelope.model_validate_json(body)
    except ValidationError as error:
        raise BadInput(f"report of {node}: {sentence(Envelope, error)}", "Is the agent of the same version as the server?") from None
    return envelope.version, [one_sample(sent) for sent in envelope.samples]


def one_sample(sent: dict[str, Any]) -> NodeSample | RefusedSample:
    at = sent.get("at")
    try:
        return zoned(ReportBody.model_validate_json(json.dumps({"samples": [sent]})).samples[0])
    except ValidationError as error:
        why = sentence(ReportBody, error).removeprefix("samples.0.")
    except (ValueError, RecursionError):
        why = "it holds a number of thousands of figures, or parts within parts without end"
    return RefusedSample(at[:LONGEST_TIME] if isinstance(at, str) else None, why[:LONGEST_WHY])


def zoned(sample: NodeSample) -> NodeSample | RefusedSample:
    if sample.at.utcoffset() is None:
        return RefusedSample(sample.at.isoformat()[:LONGEST_TIME], "at: the time says no zone")
    return sample


def judge(sample: NodeSample | RefusedSample, node: str, now: datetime, wrong: timedelta) -> Heard | RefusedSample:
    if isinstance(sample, RefusedSample):
        return sample
    try:
        here = put_right(sample, wrong)
    except BadInput as error:
        return refused(sample, str(error))
    if here.node != node:
        return refused(sample, f"it says it is of {here.node[:60]!r}, and an agent speaks for its own host alone")
    fault = sample_fault(here, now)
    return Heard(here, sample.at) if fault is None else refused(sample, fault)


def refused(sample: NodeSample, why: str) -> RefusedSample:
    return RefusedSample(sample.at.isoformat()[:LONGEST_TIME], why[:LONGEST_WHY])
