"""Counters of a host's disks and network devices: each byte once, so neither partitions nor what is built on top of others."""
import os
import re
import time
from collections.abc import Callable

from gpufairy.core.host_reading import DiskReading, NetworkReading
from gpufairy.node.host_files import names_in, read_number, read_text

SECTOR_BYTES = 512  # in these counters, whatever the disk has
LOOK_AGAIN_S = 60.0  # which devices there are
BYTES_PER_MEGABIT = 125_000
NO_DISKS = re.compile(r"(?:loop|ram|zram|sr|fd|dm-|md)[0-9]")  # memory, what can be taken out, what is built on disks
PARTITION = re.compile(r"(?:(?:sd|vd|xvd|hd)[a-z]+|(?:nvme[0-9]+n|mmcblk|nbd)[0-9]+p)[0-9]+")
NO_NETWORKS = re.compile(
    r"lo$|(?:veth|docker|br-|cni|flannel|cali|virbr|vnet|tap|tun|podman|lxc|lxd|cilium|kube|nodelocal|dummy|ifb|sit|gre|ip6)"
)


class DeviceCounters:
    def __init__(self, root: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._sys, self._monotonic = f"{root}/proc", f"{root}/sys", monotonic
        self._looked_s = float("-inf")
        self._disks: frozenset[str] | None = None
        self._networks: frozenset[str] | None = None
        self._speeds: dict[str, int] = {}  # bytes per second

    def disks(self) -> tuple[DiskReading, ...]:
        self._look()
        rows = (line.split() for line in read_text(f"{self._proc}/diskstats").split("\n"))
        return tuple(
            DiskReading(row[2], int(row[5]) * SECTOR_BYTES, int(row[9]) * SECTOR_BYTES, int(row[12]) / 1000)
            for row in rows
            if len(row) >= 13 and self._is_disk(row[2])
        )

    def networks(self) -> tuple[NetworkReading, ...]:
        """Of the host's own network, also where we are in a container that sees the host's processes."""
        self._look()
        text = read_text(f"{self._proc}/1/net/dev") or read_text(f"{self._proc}/net/dev")
        rows = ((name.strip(), rest.split()) for name, colon, rest in (line.rpartition(":") for line in text.split("\n")) if colon)
        found = [
            NetworkReading(name, int(row[0]), int(row[8]), self._speeds.get(name))
            for name, row in rows
            if len(row) >= 16 and not NO_NETWORKS.match(name)
        ]
        physical = tuple(one for one in found if self._networks is not None and one.device in self._networks)
        return physical or tuple(found)  # a virtual machine or container may have no physical one at all

    def _is_disk(self, name: str) -> bool:
        if self._disks is None:
            return not NO_DISKS.match(name) and not PARTITION.fullmatch(name)
        return name in self._disks

    def _look(self) -> None:
        if self._monotonic() - self._looked_s < LOOK_AGAIN_S:
            return
        self._looked_s = self._monotonic()
        block = names_in(f"{self._sys}/block")
        whole = frozenset(name for name in block if not NO_DISKS.match(name) and not names_in(f"{self._sys}/block/{name}/slaves"))
        self._disks = whole if block else None
        networks = names_in(f"{self._sys}/class/net")
        megabits = {name: read_number(f"{self._sys}/class/net/{name}/speed") for name in networks}  # -1, or an error: not known
        self._speeds = {name: speed * BYTES_PER_MEGABIT for name, speed in megabits.items() if speed is not None and speed > 0}
        self._networks = frozenset(name for name in networks if os.path.exists(f"{self._sys}/class/net/{name}/device"))
