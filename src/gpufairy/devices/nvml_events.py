"""XID errors, as the driver tells them: a thread of their own waits for them, so that none is missed between two looks."""
import ctypes
import threading
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pynvml  # type: ignore[import-untyped]

from gpufairy.core.reading import Xid
from gpufairy.devices.nvml_calls import ask
from gpufairy.devices.nvml_found import Found

WAIT_MS = 1000
MOST_KEPT = 1024  # between two looks: a GPU in trouble may report thousands a second
LONGEST_END_S = 3.0


class XidEvents:
    """`taken` hands out each event once. One set for good: with two, an event in between would be counted twice."""

    def __init__(self) -> None:
        self._seen: deque[Xid] = deque(maxlen=MOST_KEPT)
        self._uuids: dict[int | None, str] = {}  # by handle: a GPU that was lost just now cannot say its name any more
        self._ended = threading.Event()
        self._events = ask(pynvml.nvmlEventSetCreate)
        self._thread: threading.Thread | None = None

    def listen_to(self, gpus: Iterable[Found]) -> None:
        for gpu in gpus:
            if self._uuids.get(address(gpu.handle)) != gpu.device.uuid and self._registered(gpu.handle):
                self._uuids[address(gpu.handle)] = gpu.device.uuid
        if self._uuids and self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="xid", daemon=True)
            self._thread.start()

    def taken(self) -> tuple[Xid, ...]:
        return tuple(self._seen.popleft() for _ in range(len(self._seen)))

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(LONGEST_END_S)
        # A thread that still waits in the driver waits on this set: better leaked than taken from under it.
        if self._events is not None and (self._thread is None or not self._thread.is_alive()):
            ask(pynvml.nvmlEventSetFree, self._events)

    def _registered(self, handle: Any) -> bool:
        if self._events is None:
            return False
        try:
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._events)
        except pynvml.NVMLError:  # an old or virtual GPU has no events, and a lost one tells none
            return False
        return True

    def _wait(self) -> None:
        while not self._ended.is_set():
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, WAIT_MS)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:
                    self._ended.wait(WAIT_MS / 1000)  # a lost GPU makes it fail at once, again and again
                continue
            uuid = self._uuids.get(address(event.device))
            if uuid is not None and event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                self._seen.append(Xid(uuid, int(event.eventData), datetime.now(UTC)))


def address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
