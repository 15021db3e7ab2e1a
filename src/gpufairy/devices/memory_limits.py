"""GPU memory held to a limit by the driver itself, for all programs of one cgroup: from driver r615 on, where cgroups are version 2."""
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gpufairy.core.errors import EngineRefused
from gpufairy.devices.bounded_call import BoundedCalls
from gpufairy.devices.nvml_exits import NO_DRIVER, TOO_OLD

PROGRAM = (sys.executable, "-P", "-m", "gpufairy.devices.memory_limits_child")
CGROUPS = Path("/sys/fs/cgroup")
LIMIT_S = 30.0


class DriverMemoryLimits:
    def __init__(self, *, env: Mapping[str, str] | None = None, limit_s: float = LIMIT_S) -> None:
        self._env, self._limit_s = {**os.environ, **(env or {})}, limit_s
        self._calls = BoundedCalls()
        self._lacking = False  # once known: another driver means another start

    async def hold(self, gpu: str, cgroup: Path, memory_bytes: int) -> bool:
        """False: this driver cannot. Raises EngineRefused where it can and did not."""
        if self._lacking:
            return False
        try:
            answer = await self._calls.run([*PROGRAM, gpu, str(cgroup), str(memory_bytes)], env=self._env, limit_s=self._limit_s)
        except TimeoutError as error:
            found = f"the driver did not answer when GPU {gpu} was to be limited for {cgroup}: {error}"
            raise EngineRefused(found, "See `dmesg`.") from error
        if answer.code in (TOO_OLD, NO_DRIVER):
            self._lacking = True
            return False
        if answer.code != 0 or answer.out.strip() != str(memory_bytes):
            found = answer.text.splitlines()[-1][:300] if answer.text else f"code {answer.code}"
            raise EngineRefused(f"the driver did not limit GPU {gpu} for {cgroup}: {found}", "See `nvidia-smi memory-limits --get`.")
        return True


def cgroup_of(pid: int, proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> Path | None:
    """Where the process is counted, in version 2's single tree. None: there is none, or the process is gone."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if path is None or not (cgroups / "cgroup.controllers").exists():
        return None
    return cgroups / path.lstrip("/")
