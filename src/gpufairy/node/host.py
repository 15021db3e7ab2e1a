"""A host's own readings, put together. The dear ones (users, file systems, sensors) are kept for some seconds by those who take them."""
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gpufairy.core.host_reading import HostReading
from gpufairy.node.accounts import Accounts
from gpufairy.node.host_cpu import CpuMeter, boot_id, load_1m, memory, pressure, up_s
from gpufairy.node.host_disks import DeviceCounters
from gpufairy.node.host_heat import EnergyMeter, Thermometer
from gpufairy.node.host_mounts import Mounts
from gpufairy.node.host_users import UserLoads

ROOT = Path("/")


class HostReader:
    """`root`: where the host's file system is seen, from a container that has its processes too: /proc/1/root."""

    def __init__(
        self,
        root: Path = ROOT,
        *,
        accounts: Callable[[int], str] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        top = str(root).rstrip("/")
        self._proc, self._clock = f"{top}/proc", clock
        self._cpus = CpuMeter(self._proc)
        self._devices = DeviceCounters(top, monotonic)
        self._mounts = Mounts(top, monotonic)
        self._thermometer = Thermometer(top, monotonic)
        self._energy = EnergyMeter(top, monotonic)
        self._users = UserLoads(self._proc, accounts or Accounts(root).name, monotonic)

    def read(self) -> HostReading:
        cpu, room, energy = self._cpus.read(), memory(self._proc), self._energy.read()
        return HostReading(
            self._clock(),
            cpus=cpu.cpus,
            cpu_used=cpu.used,
            cores=cpu.cores,
            load_1m=load_1m(self._proc),
            cpu_pressure=pressure(self._proc, "cpu"),
            memory_pressure=pressure(self._proc, "memory"),
            io_pressure=pressure(self._proc, "io"),
            memory_total_bytes=room.total_bytes,
            memory_available_bytes=room.available_bytes,
            swap_total_bytes=room.swap_total_bytes,
            swap_used_bytes=room.swap_used_bytes,
            disks=self._devices.disks(),
            mounts=self._mounts.read(),
            networks=self._devices.networks(),
            temperatures_c=self._thermometer.read(),
            energy_j=energy.energy_j,
            power_w=energy.power_w,
            up_s=up_s(self._proc),
            boot_id=boot_id(self._proc),
            users=self._users.read(),
        )

    @property
    def trouble(self) -> tuple[str, ...]:
        """What could not be read, in words."""
        return self._mounts.trouble
