"""Insight: advice on sessions, worked out when somebody asks and kept for a while. Nothing else depends on it: no alert, no reclaim."""
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from gpufairy.control.clock import Clock
from gpufairy.control.watch import Watch
from gpufairy.core.insight import Advice, GpuLook, Pace, SessionLook
from gpufairy.core.insight_rules import advice_of_all
from gpufairy.core.lifecycle import Phase
from gpufairy.core.node_sample import NodeSample
from gpufairy.core.reading import GpuReading
from gpufairy.core.series import Floats, Kind
from gpufairy.core.session import GpuSeat, Seat, Session, SessionKind, Wanted
from gpufairy.core.share import PARTS
from gpufairy.store.history import History

RESTS = 20  # times as long as it took: looking at everybody takes no more of the server than a twentieth
Grids: TypeAlias = Mapping[str, Mapping[str, Floats]]


class Insight:
    def __init__(self, history: History, watch: Watch, clock: Clock, pace: Pace | None = Pace()) -> None:
        """`pace=None`: nobody wants to be told anything."""
        self._history, self._watch, self._clock = history, watch, clock
        self.pace = pace
        self._live: dict[str, list[Advice]] = {}
        self._good_until: datetime | None = None
        self._one_at_a_time = asyncio.Lock()

    async def live(self, sessions: Sequence[Session]) -> dict[str, list[Advice]]:
        """By id. `sessions`: all that there are, since whoever asks next is answered from the same. Only those that run are spoken of."""
        async with self._one_at_a_time:
            if self.pace is not None and (self._good_until is None or self._clock() >= self._good_until):
                began_s = time.monotonic()
                self._live = await self._of([one for one in sessions if runs(one)], self._clock(), self.pace)
                rest_s = max(self.pace.step_s / 2, RESTS * (time.monotonic() - began_s))
                self._good_until = self._clock() + timedelta(seconds=rest_s)
        return self._live

    async def of_ended(self, session: Session) -> list[Advice]:
        """What its last readings say: for the next time."""
        if self.pace is None or session.ended_at is None or session.seat is None:
            return []
        return (await self._of([session], session.ended_at, self.pace)).get(session.id, [])

    async def _of(self, sessions: Sequence[Session], until: datetime, pace: Pace) -> dict[str, list[Advice]]:
        seats = {session.id: session.seat for session in sessions if session.seat is not None}
        if not seats:
            return {}
        since = until - timedelta(seconds=pace.step_s * (pace.back - 1))
        ids, nodes = list(seats), list({seat.node for seat in seats.values()})
        devices = list({name for seat in seats.values() for gpu in seat.gpus for name in (gpu.device, gpu.uuid)})
        own, of_nodes, of_gpus = [
            await self._history.grids(kind, names, since, until, step=pace.step_s)
            for kind, names in ((Kind.SESSION, ids), (Kind.NODE, nodes), (Kind.GPU, devices))
        ]
        samples = {sample.node: sample for sample in self._watch.samples()}
        read = Read(own, of_nodes, of_gpus, samples, self._watch.readings())
        looks = {
            session.id: read.look(session, session.seat, until, pace)
            for session in sessions
            if session.seat is not None and session.id in read.sessions
        }
        found = await asyncio.to_thread(advice_of_all, list(looks.values()), pace)
        return dict(zip(looks, found, strict=True))


def runs(session: Session) -> bool:
    return session.phase is Phase.RUNNING and session.wanted is Wanted.RUN and session.seat is not None


@dataclass(frozen=True, slots=True)
class Read:
    """All that was read, by id, name and UUID; and what the hosts say of themselves now."""

    sessions: Grids
    nodes: Grids
    gpus: Grids
    samples: Mapping[str, NodeSample]
    readings: Mapping[str, GpuReading]

    def look(self, session: Session, seat: Seat, until: datetime, pace: Pace) -> SessionLook:
        started = session.started_at or session.placed_at or until
        host = self.samples[seat.node].host if seat.node in self.samples else None
        links = [] if host is None else [one.speed_bytes_per_s for one in host.networks if one.speed_bytes_per_s]
        return SessionLook(
            session.name, session.kind is SessionKind.BATCH, seat.gpu_parts / PARTS, sum(gpu.memory_bytes for gpu in seat.gpus),
            seat.cpus_milli / 1000, seat.memory_bytes, int((until - started).total_seconds() // pace.step_s), self.sessions[session.id],
            self.nodes.get(seat.node, {}), tuple(map(self.gpu_look, seat.gpus)),
            node_cpus=None if host is None or host.cpus is None else float(host.cpus),
            link_bytes_per_s=float(max(links)) if links else None,
        )  # fmt: skip

    def gpu_look(self, gpu: GpuSeat) -> GpuLook:
        """Heat is that of the GPU that an instance was cut from. Its power is drawn by all instances together, and so says nothing."""
        of_all, reading = self.gpus.get(gpu.uuid, {}), self.readings.get(gpu.uuid)
        columns = {**self.gpus.get(gpu.device, {}), **{name: of_all[name] for name in OF_THE_WHOLE if name in of_all}}
        if gpu.profile:
            columns.pop("power_w", None)
        return GpuLook(gpu.index, columns, gpu.parts >= PARTS or bool(gpu.profile), None if reading is None else reading.power_limit_w)


OF_THE_WHOLE = ("power_w", "temperature_c", "throttled_power", "throttled_heat")
