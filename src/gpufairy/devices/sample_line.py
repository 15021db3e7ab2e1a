"""A sample as one line of JSON, and back: how the process that asks the driver tells what it read. What is not known is left out."""
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading, GpuSample, LostGpu, Xid

PARTS: Mapping[str, type] = {"devices": GpuDevice, "readings": GpuReading, "processes": GpuProcess, "xids": Xid, "lost": LostGpu}
FIELDS = {kind: tuple((f.name, f.default) for f in fields(kind)) for kind in (*PARTS.values(), GpuSample)}
LONGEST_LINE_BYTES = 4 * 2**20  # 8 GPUs and 64 processes take 12 KB


def to_line(sample: GpuSample) -> str:
    return json.dumps(_plain(sample), default=_plain, separators=(",", ":"), allow_nan=False)


def trouble_line(words: str) -> str:
    return json.dumps({"trouble": words})


def from_line(line: str | bytes) -> GpuSample | str:
    """A sample; or, in words, why there is none."""
    try:
        told = json.loads(line)
        if "trouble" in told:
            return str(told["trouble"])
        parts = {name: tuple(_made(kind, entry) for entry in told.pop(name, ())) for name, kind in PARTS.items()}
        sample: GpuSample = _made(GpuSample, told | parts)
        return sample
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadInput(f"a line of {len(line)} bytes is no sample of GPUs: {error}") from error


def _plain(thing: Any) -> Any:
    if isinstance(thing, datetime):
        return thing.isoformat()
    entries = ((name, getattr(thing, name), default) for name, default in FIELDS[type(thing)])
    return {name: value for name, value, default in entries if default is MISSING or value != default}


def _made(kind: type, entry: dict[str, Any]) -> Any:
    if "at" in entry:
        entry["at"] = datetime.fromisoformat(entry["at"])
    if "throttled_by" in entry:
        entry["throttled_by"] = tuple(entry["throttled_by"])
    return kind(**entry)
