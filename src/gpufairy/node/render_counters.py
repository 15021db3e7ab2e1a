"""XID errors, counted since this host was first watched. The caller keeps them as plain values: a new start must not let a counter fall."""
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufairy.core.reading import Xid
from gpufairy.node.render_text import Text, counter, gauge

ERRORS = counter("fairy_gpu_xid_errors_total", "Errors that the driver reported of the GPU, by XID code.")
LAST_SEEN = gauge("fairy_gpu_xid_last_seen_timestamp_seconds", "When the driver last reported this XID code of the GPU.")
MOST_ROWS = 4096  # GPUs times codes: more than any host has, and a bound for what a spoilt file can hold


@dataclass(frozen=True, slots=True)
class Count:
    errors: int
    last_seen_s: float  # since 1970
    gpu: str  # the label it had: an error is often the last that is heard of a GPU


class Counters:
    """By UUID and code. `to_plain` is JSON; `from_plain` takes anything, and leaves out what it cannot use."""

    def __init__(self, counts: Mapping[tuple[str, int], Count] | None = None) -> None:
        self._counts = dict(counts or {})

    def add(self, xids: Iterable[Xid], labels: Mapping[str, str]) -> bool:
        """`labels`: UUID to label of the GPUs that are known now. True: something changed, so it should be written down."""
        before = dict(self._counts)
        for (uuid, code), count in before.items():
            self._counts[uuid, code] = Count(count.errors, count.last_seen_s, labels.get(uuid, count.gpu))
        for xid in xids:
            old = self._counts.get((xid.uuid, xid.code), Count(0, 0.0, labels.get(xid.uuid, "")))
            self._counts[xid.uuid, xid.code] = Count(old.errors + 1, max(old.last_seen_s, xid.at.timestamp()), old.gpu)
        return self._counts != before

    def copy(self) -> "Counters":
        return Counters(self._counts)

    def put(self, text: Text) -> None:
        """Two cards that had one label after each other are one row: their sum does not fall either."""
        rows: dict[tuple[str, int], Count] = {}
        for (_, code), count in self._counts.items():
            same = rows.get((count.gpu, code), Count(0, 0.0, count.gpu))
            rows[count.gpu, code] = Count(same.errors + count.errors, max(same.last_seen_s, count.last_seen_s), count.gpu)
        for (gpu, code), count in rows.items():
            text.put(ERRORS, f'gpu="{gpu}",xid="{code}"', count.errors)
            text.put(LAST_SEEN, f'gpu="{gpu}",xid="{code}"', count.last_seen_s)

    def to_plain(self) -> list[list[Any]]:
        return [[uuid, code, count.errors, count.last_seen_s, count.gpu] for (uuid, code), count in self._counts.items()]

    @classmethod
    def from_plain(cls, plain: object) -> "Counters":
        rows = plain[:MOST_ROWS] if isinstance(plain, list) else []
        return cls(dict(row for row in map(row_from_plain, rows) if row is not None))


def row_from_plain(row: object) -> tuple[tuple[str, int], Count] | None:
    match row:
        case [str(uuid), int(code), int(errors), int() | float() as last_seen_s, str(gpu)] if errors >= 0 and math.isfinite(last_seen_s):
            return (uuid, code), Count(errors, float(last_seen_s), gpu if gpu.replace("_", "").isdecimal() else "")
    return None
