"""Reading: one measurement, with its time. None means not known, never zero."""
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class GpuReading:
    uuid: str
    at: datetime
    utilisation: float | None  # 0 to 1
    memory_used_bytes: int | None
    simulated: bool
