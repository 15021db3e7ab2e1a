"""Hundreds of agents in one process, for `agents`: each with a key and a connection of its own, reporting on its own beat.

Run as `python -m bench.agent_crowd URL TOKEN AGENTS SECONDS`; a line when all were accepted, and one of figures at the end.
"""
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from gpufairy.core.host_reading import DiskReading, HostReading, MountReading, NetworkReading, UserLoad
from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.core.owner import KnownBy, Owner, RunningProcess
from gpufairy.core.reading import GpuDevice, GpuProcess, GpuReading
from gpufairy.core.sample_plain import to_plain
from gpufairy.node.identity import Identity

EVERY_S = 5.0
GPUS, PROCESSES, CORES = 8, 16, 64
AT_ONCE = 50  # hellos on their way: as many agents may wait at one time
LIMIT_S = 30.0
THEN = datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)  # in its place goes the time at which a report is sent
READY = "all accepted"


@dataclass(slots=True)
class Tally:
    sent: int = 0
    taken: int = 0
    took_s: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Line:
    """One kept connection, spoken to in HTTP as an agent does."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._host, self._port = at.hostname or "127.0.0.1", at.port or 80
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        fields = {"Host": f"{self._host}:{self._port}", "Content-Type": "application/json", "Content-Length": str(len(body)), **fields}
        head = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self._writer.write("\r\n".join(head).encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.partition("content-length:")[2].partition("\r\n")[0])
        told = await self._reader.readexactly(length)
        return int(answer.split()[1]), json.loads(told) if told else {}

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class CrowdAgent:
    def __init__(self, url: str, number: int) -> None:
        self.name = f"gpu{number:03}"
        self._identity, self._line, self._epoch, self._sequence = Identity(os.urandom(32)), Line(url), "", 0
        report = {"version": "bench", "samples": [to_plain(a_sample(self.name, number))]}
        self._body = json.dumps(report, separators=(",", ":")).encode()

    async def join(self, token: str) -> None:
        await self._hello()
        await self._post(f"/api/v1/agents/{self.name}/accept", b"{}", {"Authorization": f"Bearer {token}"})
        self._epoch = (await self._hello())["epoch"]

    async def keep_reporting(self, begin_s: float, until_s: float, tally: Tally) -> None:
        due_s = begin_s
        while due_s < until_s:
            await asyncio.sleep(due_s - time.monotonic())
            await self._report(tally)
            due_s += EVERY_S
        self._line.close()

    async def _report(self, tally: Tally) -> None:
        body = self._body.replace(THEN.isoformat().encode(), datetime.now(UTC).isoformat().encode())
        began_s = time.monotonic()
        tally.sent += 1
        status = await asyncio.wait_for(self._send(body), LIMIT_S)
        tally.took_s.append(time.monotonic() - began_s)
        if status == 200:
            tally.taken += 1
        else:
            tally.refused.append(f"{self.name}: {status}")

    async def _send(self, body: bytes) -> int:
        """The status of the answer."""
        self._sequence += 1
        signature = self._identity.signature(self.name, self._epoch, self._sequence, body)
        stamp = {"Fairy-Epoch": self._epoch, "Fairy-Sequence": str(self._sequence), "Fairy-Signature": signature}
        return (await self._line.post(f"/api/v1/agents/{self.name}/reports", body, stamp))[0]

    async def _hello(self) -> dict[str, Any]:
        return await self._post("/api/v1/agents/hello", json.dumps({"name": self.name, "key": self._identity.public}).encode(), {})

    async def _post(self, path: str, body: bytes, fields: dict[str, str]) -> dict[str, Any]:
        status, told = await self._line.post(path, body, fields)
        if status != 200:
            raise RuntimeError(f"{path} answered {status}: {told}")
        return told


def a_sample(node: str, number: int) -> NodeSample:
    """A busy host, with all that such a one tells."""
    uuids = [f"GPU-{number:08x}-0000-0000-0000-{index:012x}" for index in range(GPUS)]
    host = HostReading(
        THEN, cpus=CORES, cpu_used=0.31, cores=tuple(0.01 * core for core in range(CORES)), load_1m=12.5,
        memory_total_bytes=2**40, memory_available_bytes=2**39, swap_total_bytes=0, swap_used_bytes=0,
        disks=tuple(DiskReading(f"nvme{index}n1", 10**12, 10**11, 5000.0) for index in range(4)),
        mounts=tuple(MountReading(f"/data{index}", f"/dev/nvme{index}n1p1", "ext4", 2**42, 2**41, 10**8, 9 * 10**7) for index in range(6)),
        networks=tuple(NetworkReading(f"eno{index}", 10**13, 10**12) for index in range(2)),
        temperatures_c=tuple((f"Core {core}", 61.0) for core in range(8)), energy_j=1e9, power_w=410.0, up_s=1e6,
        users=tuple(UserLoad(f"user{user}", 40, 4.5, 2**34) for user in range(6)),
    )  # fmt: skip
    return NodeSample(
        node, THEN, EVERY_S, host,
        tuple(GpuDevice(uuid, str(index), index, "H200-141GB", 141 * 2**30, "NVIDIA H200") for index, uuid in enumerate(uuids)),
        tuple(a_reading(uuid, number) for uuid in uuids),
        tuple(a_process(index, uuids[index % GPUS], number) for index in range(PROCESSES)),
        driver="580.159.04", driver_cuda="13.0",
    )  # fmt: skip


def a_reading(uuid: str, number: int) -> GpuReading:
    use = number % 97 / 100
    return GpuReading(
        uuid, THEN, use, 10**11, memory_total_bytes=141 * 2**30, memory_utilisation=use / 2, sm_active=use, sm_occupancy=use / 2,
        tensor_active=use / 3, dram_active=use / 4, power_w=300 + 300 * use, power_limit_w=700.0, energy_j=1e8, temperature_c=61.0,
        memory_temperature_c=70.0, slowdown_c=92.0, sm_clock_hz=1_980_000_000, memory_clock_hz=3_201_000_000, throttled_by=(),
        ecc_corrected=0, ecc_uncorrected=0, remapped_corrected=0, remapped_uncorrected=0, remap_pending=False, remap_failed=False,
        pcie_sent_bytes=10**12, pcie_received_bytes=10**12,
    )  # fmt: skip


def a_process(index: int, uuid: str, number: int) -> ProcessReading:
    user = f"user{(index + number) % 6}"
    return ProcessReading(
        GpuProcess(4000 + index, uuid, 5 * 10**10, 0.4, 0.2),
        RunningProcess(4000 + index, 123_456, 1000, "python", "python train.py --config configs/large.yaml", 1.7e9),
        Owner(user, KnownBy.RULE, container=f"{user}_train", container_id=f"{index:064x}"), True, "40% in use 0 s ago",
    )  # fmt: skip


async def join_all(crowd: Sequence[CrowdAgent], token: str) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def join(one: CrowdAgent) -> None:
        async with room:
            await one.join(token)

    await asyncio.gather(*map(join, crowd))


async def report_all(url: str, token: str, agents: int, lasts_s: float) -> Tally:
    crowd = [CrowdAgent(url, number) for number in range(agents)]
    await join_all(crowd, token)
    print(READY, flush=True)
    tally, begin_s = Tally(), time.monotonic() + 1
    beats = (one.keep_reporting(begin_s + EVERY_S * number / agents, begin_s + lasts_s, tally) for number, one in enumerate(crowd))
    await asyncio.gather(*beats)
    return tally


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(report_all(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))), flush=True)
