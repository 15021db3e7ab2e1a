"""Watch: what every host last told of itself, and which have fallen silent. Hosts whose agents report, and the server's own."""
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from gpufairy.control.clock import Clock, boot_s
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuDevice, GpuReading, Xid

SILENT_AFTER_S = 17.0  # three reports missed; a dead host is to be noticed in 20 s
AWAY_AFTER_S = 5.0  # without a beat, which comes each second: the server itself slept, and heard nobody meanwhile
MOST_XIDS = 10_000  # kept until somebody asks for them


@dataclass(frozen=True, slots=True)
class Seen:
    """`sample=None`: it has told nothing since the server began."""

    node: str
    sample: NodeSample | None
    heard_at: datetime | None
    silent: bool
    own: bool  # the server's own host
    agent_version: str = ""


class Watch:
    def __init__(self, clock: Clock, expected: Callable[[], Iterable[str]], steady_s: Callable[[], float] = boot_s) -> None:
        """`expected`: the hosts whose agents may report."""
        self._clock, self._expected, self._steady_s = clock, expected, steady_s
        self._samples: dict[str, NodeSample] = {}
        self._heard: dict[str, tuple[float, datetime, str]] = {}
        self._began_s = steady_s()
        self._awaited_s: dict[str, float] = {}  # since when, of those that were let in after that
        self._beat_s: float | None = None
        self._xids: deque[tuple[str, Xid]] = deque(maxlen=MOST_XIDS)
        self.own: set[str] = set()

    def take(self, sample: NodeSample, *, own: bool = False, version: str = "") -> None:
        """What a host says of now. Its clock may have been set back since, so the last word counts, whatever time it names."""
        self._heard[sample.node] = (self._steady_s(), self._clock(), version)
        if own:
            self.own.add(sample.node)
        self._samples[sample.node] = sample
        self.note_xids(sample.node, sample.xids)

    def beat(self) -> None:
        """Each second. A server that slept, or was stopped, must not call dead whom it could not hear: all are given their time anew."""
        now_s = self._steady_s()
        if self._beat_s is not None and now_s - self._beat_s > AWAY_AFTER_S:
            self._began_s = now_s
        self._beat_s = now_s

    def note_xids(self, node: str, xids: Iterable[Xid]) -> None:
        self._xids.extend((node, xid) for xid in xids)

    def take_xids(self) -> list[tuple[str, Xid]]:
        """Errors of GPUs that were told since this was last asked, each with its host. A report sent again may tell one twice."""
        taken = list(self._xids)
        self._xids.clear()
        return taken

    def hear(self, node: str) -> None:
        """It lives, and what it says of itself comes later."""
        self._heard[node] = (self._steady_s(), self._clock(), self._heard.get(node, (0.0, None, ""))[2])

    def await_first(self, node: str) -> None:
        """It was let in just now: as at the start of the server, nobody calls it silent before it had the time to speak."""
        self._awaited_s[node] = self._steady_s()

    def own_devices(self) -> set[str]:
        """UUIDs of the GPUs and MIG instances of the server's own host."""
        return {device.uuid for node in self.own if node in self._samples for device in self._samples[node].devices}

    def forget(self, node: str) -> None:
        self._samples.pop(node, None)
        self._heard.pop(node, None)
        self._awaited_s.pop(node, None)

    def hosts(self) -> list[Seen]:
        return [self._seen(name) for name in sorted({*self._expected(), *self.own})]

    def host(self, name: str) -> Seen | None:
        return self._seen(name) if name in self.own or name in set(self._expected()) else None

    def readings(self) -> dict[str, GpuReading]:
        """By UUID of the GPU or MIG instance, of the hosts that are not silent: what was true a minute ago says nothing of now."""
        ours_last = sorted(self.samples(), key=lambda sample: sample.node in self.own)  # nobody else speaks for our own GPUs
        return {reading.uuid: reading for sample in ours_last for reading in sample.readings}

    def devices(self) -> dict[str, tuple[str, GpuDevice]]:
        """Every GPU and MIG instance that a host has told of, with its host; of silent ones, as they were."""
        return {device.uuid: (node, device) for node, sample in self._samples.items() for device in sample.devices}

    def samples(self) -> list[NodeSample]:
        return [seen.sample for seen in self.hosts() if seen.sample is not None and not seen.silent]

    def _seen(self, name: str) -> Seen:
        heard_s, heard_at, version = self._heard.get(name, (self._began_s, None, ""))
        now_s = self._steady_s()
        asleep = self._beat_s is not None and now_s - self._beat_s > AWAY_AFTER_S  # until the next beat
        silent = now_s - max(heard_s, self._began_s, self._awaited_s.get(name, self._began_s)) > SILENT_AFTER_S and not asleep
        return Seen(name, self._samples.get(name), heard_at, silent, name in self.own, version)
