"""GpuSource: where samples of this machine's GPUs come from, real or simulated. Kept up to date in the background; asking costs nothing."""
from collections.abc import Callable
from typing import Protocol

from gpufairy.core.reading import GpuSample

OnSample = Callable[[GpuSample], None]


class GpuSource(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def latest(self) -> GpuSample | None:
        """None: not known now, and never to be taken for idle. Without devices: there are none."""

    @property
    def trouble(self) -> str:
        """Why the sample is missing or empty though one might expect more; empty: all is well."""
