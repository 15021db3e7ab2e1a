"""MPS daemons on the fake program, with a clock that a test holds, and an end to all that was started."""
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fake_mps import FakeMps
from gpufairy.devices.mps import HeldShare, MpsDaemons, MpsNews, MpsStatus

GPU = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"
GIB = 1024**3
NOW = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)


class Steady:
    """A clock in seconds."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


class ModeBook:
    """What became of the compute mode, as a list of orders."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, bool]] = []
        self.before: Callable[[bool], None] = lambda exclusive: None

    async def __call__(self, gpu: str, exclusive: bool) -> None:
        self.before(exclusive)
        self.orders.append((gpu, exclusive))


class Scene:
    def __init__(self, folder: Path, short: Path) -> None:
        self.folder, self._short = folder / "mps", short
        self.fake, self.clock, self.mode = FakeMps(folder), Steady(), ModeBook()
        self.mps = self.another()

    def another(self, **more: Any) -> MpsDaemons:
        """As a server that is started anew: all it knows is the folder."""
        given = {"program": self.fake.program, "clock": self.clock, "now": lambda: NOW, "compute_mode": self.mode, "answer_s": 1.0, "short_folder": self._short, **more}
        return MpsDaemons(self.folder, **given)

    async def share(self, gpu: str = GPU, sm_percent: int = 50, gib: int = 20) -> Path:
        return await self.mps.ready(gpu, sm_percent=sm_percent, memory_bytes=gib * GIB)

    async def turn(self, *shares: HeldShare, gpu: str = GPU, after_s: float = 0.0, on_gpu: tuple[int, ...] | None = None) -> list[MpsNews]:
        """`on_gpu=None`: what is on it is not known."""
        self.clock.s += after_s
        return await self.mps.watch({gpu: shares}, {} if on_gpu is None else {gpu: on_gpu})

    def status(self, gpu: str = GPU) -> MpsStatus:
        return next(one for one in self.mps.status() if one.gpu == gpu)

    def server(self, gpu: str = GPU) -> int:
        return self.status(gpu).servers[0].pid


@contextmanager
def mps_scene(folder: Path) -> Iterator[Scene]:
    with TemporaryDirectory(prefix="mps-") as short:  # a socket's path has at most 107 bytes, and a test's folder as many
        scene = Scene(folder, Path(short))
        try:
            yield scene
        finally:
            scene.fake.end(scene.folder, Path(short))


def a_share(session: str = "s1", sm_percent: int = 50, gib: int = 20) -> HeldShare:
    return HeldShare(session, sm_percent, gib * GIB)


def events(news: list[MpsNews]) -> list[str]:
    return [one.event.removeprefix("mps_") for one in news]
