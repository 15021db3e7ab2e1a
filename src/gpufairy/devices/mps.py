"""MpsDaemons: one MPS control daemon for each GPU that is shared in fractions. They outlive this process, and are found again."""
import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpufairy.core.errors import BadInput
from gpufairy.devices.mps_daemon import ComputeMode, MpsSetting, leave_compute_mode
from gpufairy.devices.mps_folder import SHORT_FOLDER
from gpufairy.devices.mps_keeper import MpsKeeper
from gpufairy.devices.mps_note import notes_in
from gpufairy.devices.mps_values import Caps, HeldShare, MpsEvent, MpsNews, MpsServer, MpsStatus
from gpufairy.devices.mps_words import is_cut

_GPU = re.compile(r"GPU-[0-9A-Za-z-]{1,60}")  # it names a folder
MOST_CLIENTS = 48  # of one server, Volta to Hopper; newer GPUs take 60


class MpsDaemons:
    def __init__(
        self,
        folder: Path,
        *,
        program: Path | str = "nvidia-cuda-mps-control",
        compute_mode: ComputeMode = leave_compute_mode,
        client_limit: Callable[[str], int] = lambda gpu: MOST_CLIENTS,
        grace_s: float = 60.0,
        silent_limit_s: float | None = None,
        answer_s: float = 3.0,
        short_folder: Path = SHORT_FOLDER,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """See MpsSetting for what each means."""
        self._setting = MpsSetting(
            folder, str(program), compute_mode, client_limit, grace_s, silent_limit_s, answer_s, short_folder, clock, now
        )
        self._keepers = {note.gpu: MpsKeeper(note.gpu, self._setting) for note in notes_in(folder)}

    async def ready(self, gpu: str, *, sm_percent: int, memory_bytes: int) -> Path:
        """The folder to mount read-only as the session's CUDA_MPS_PIPE_DIRECTORY: a daemon answers there, and its caps are at least these.

        Counts as held for the grace, so that the session may come into `held` a little later. Raises EngineRefused in words.
        """
        if gpu.startswith("MIG-"):
            raise is_cut(gpu)
        if not 1 <= sm_percent <= 100 or memory_bytes < 1:
            raise BadInput(f"a share of {sm_percent} % and {memory_bytes} bytes of GPU {gpu} cannot be", "Ask for 1 to 100 %.")
        return await self._keeper(gpu).ready(Caps(sm_percent, memory_bytes))

    async def watch(self, held: Mapping[str, Sequence[HeldShare]], on_gpu: Mapping[str, Collection[int]] = {}) -> list[MpsNews]:
        """One turn, each few seconds. `on_gpu`: the processes that the driver sees on each GPU, but for MPS's own servers. It finds those
        that go round MPS, and whether a daemon that hangs can be killed. A GPU that is not in it: not known."""
        for gpu in (gpu for gpu, shares in held.items() if shares):
            self._keeper(gpu)
        keepers = list(self._keepers.values())
        told = await asyncio.gather(*(keeper.turn(held.get(keeper.gpu, ()), on_gpu.get(keeper.gpu)) for keeper in keepers))
        self._keepers = {gpu: keeper for gpu, keeper in self._keepers.items() if not keeper.is_over}
        return [news for of_one in told for news in of_one]

    async def give_up(self, gpu: str) -> None:
        """Before a session gets this GPU whole: with the daemon there, and in its compute mode, only one of its programs could use it.

        Raises EngineRefused while programs still use it by MPS.
        """
        if gpu in self._keepers:
            await self._keepers[gpu].give_up()

    def status(self) -> list[MpsStatus]:
        return [keeper.status() for keeper in self._keepers.values()]

    async def close(self) -> None:
        """Daemons run on: sessions outlive the server."""
        self._keepers = {}

    def _keeper(self, gpu: str) -> MpsKeeper:
        if not _GPU.fullmatch(gpu):
            raise BadInput(f"{gpu[:80]!r} is no UUID of a GPU", "Name it as `nvidia-smi -L` does.")
        if gpu not in self._keepers:
            self._keepers[gpu] = MpsKeeper(gpu, self._setting)
        return self._keepers[gpu]


__all__ = ["HeldShare", "MpsDaemons", "MpsEvent", "MpsNews", "MpsServer", "MpsStatus"]
