"""How collecting itself went: a success gauge for each part, so that what is missing on the page is never taken for nothing."""
from dataclasses import dataclass
from datetime import datetime

from gpufairy.core.node_sample import NodeSample
from gpufairy.node.render_text import Text, gauge, labelled

SUCCESS = gauge("fairy_collector_success", "1 if the last collection could read this part, 0 if it could not.")
LAST_SUCCESS = gauge("fairy_collector_last_success_timestamp_seconds", "When this part was last read.")
SECONDS = gauge("fairy_collector_seconds", "How long the last reading of this part took.")


@dataclass(frozen=True, slots=True)
class Collected:
    """How the last try to read one part went."""

    collector: str  # gpu, host, containers, pods
    success: bool
    last_success: datetime | None = None  # None: never yet
    took_s: float | None = None


class Collectors:
    """Remembers when each part was last read. What was not noted of a collection is told by the sample itself."""

    def __init__(self) -> None:
        self._last: dict[str, Collected] = {}

    def note(self, collector: str, success: bool, at: datetime, took_s: float | None = None) -> None:
        before = self._last.get(collector)
        last_success = at if success else None if before is None else before.last_success
        self._last[collector] = Collected(collector, success, last_success, took_s)

    def forget(self, collector: str) -> None:
        """There is no such part here (any more)."""
        self._last.pop(collector, None)

    def all(self) -> tuple[Collected, ...]:
        return tuple(self._last.values())


def put_collectors(text: Text, sample: NodeSample, collected: tuple[Collected, ...]) -> None:
    told = {one.collector: one for one in collected}
    for collector, success in (("gpu", sample.gpus_known), ("host", sample.host is not None)):
        told.setdefault(collector, Collected(collector, success, sample.at if success else None))
    for one in told.values():
        labels = labelled(collector=one.collector)
        text.put(SUCCESS, labels, one.success)
        text.put(LAST_SUCCESS, labels, None if one.last_success is None else one.last_success.timestamp())
        text.put(SECONDS, labels, one.took_s)
