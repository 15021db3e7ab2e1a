"""Logs of pods: read from the kubelet while a pod is there, kept in a file of the server's when it goes."""
import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from gpufairy.core.errors import EngineRefused, EngineSilent
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.joblog import log_size as file_size
from gpufairy.engines.joblog import open_log, read_log
from gpufairy.engines.kube.api import KubeApi
from gpufairy.engines.kube.logs import read_logs
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_spec import MAIN
from gpufairy.engines.run_folder import Places

POLL_S = 0.1  # for a pod that has not begun
AGAIN_S = 1.0  # after a log that is followed broke off
LOST_LINE = b"fairy: the rest of this log could not be had from its node\n"

log = logging.getLogger(__name__)


class PodLogs:
    def __init__(self, api: KubeApi, places: Places, cap_bytes: int, pod_of: Callable[[WorkloadId], PodSeen | None]) -> None:
        self._api, self._places, self._cap, self._pod_of = api, places, cap_bytes, pod_of
        self._keeping: dict[WorkloadId, asyncio.Task[None]] = {}

    def _path(self, workload: WorkloadId) -> Path:
        return self._places.log(str(workload))

    async def read(self, workload: WorkloadId, follow: bool, from_bytes: int) -> AsyncIterator[bytes]:
        """One whose pod is not there yet is waited for, when following."""
        while not self._kept(workload):
            pod = self._pod_of(workload)
            if pod is not None and pod.over and (task := self._keeping.get(workload)) is not None:
                await asyncio.wait([task])
                break
            if pod is not None and (pod.running_since is not None or pod.over):
                async for chunk in self._live(pod, follow, from_bytes):
                    yield chunk
                return
            if not follow:
                return
            await asyncio.sleep(POLL_S)
        async for chunk in read_log(self._path(workload), self._cap, follow=False, over=lambda: True, from_bytes=from_bytes):
            yield chunk

    async def _live(self, pod: PodSeen, follow: bool, from_bytes: int) -> AsyncIterator[bytes]:
        """What breaks off while the pod runs on is followed on from there."""
        while True:
            if from_bytes and (size := await self._live_size(pod)) is not None and from_bytes > size:
                from_bytes = 0  # its kubelet has begun another file: rather twice than never
            with silence_is_the_end(pod.name):
                async for chunk in skipped(read_logs(self._api, pod.namespace, pod.name, MAIN, follow=follow and not pod.over), from_bytes):
                    from_bytes += len(chunk)
                    yield chunk
                return
            now = None if pod.id is None else self._pod_of(pod.id)
            if not follow or now is None or now.uid != pod.uid or now.over:
                return
            await asyncio.sleep(AGAIN_S)

    def _kept(self, workload: WorkloadId) -> bool:
        return self._path(workload).exists()

    async def size(self, workload: WorkloadId) -> int:
        pod = self._pod_of(workload)
        return file_size(self._path(workload)) if self._kept(workload) or pod is None else await self._live_size(pod) or 0

    async def _live_size(self, pod: PodSeen) -> int | None:
        """The kubelet does not tell it, so all of it is read: it keeps 10 MiB of a log, unless told otherwise. None: nobody says."""
        size = 0
        with silence_is_the_end(pod.name):
            async for chunk in read_logs(self._api, pod.namespace, pod.name, MAIN, follow=False):
                size += len(chunk)
            return size
        return None

    def begin_keeping(self, pod: PodSeen) -> asyncio.Task[None] | None:
        """Before the pod goes: what it writes until then is kept too."""
        if pod.id is None or self._kept(pod.id):
            return None
        if pod.id not in self._keeping:
            self._keeping[pod.id] = asyncio.create_task(self._keep(pod, pod.id), name=f"keeping the log of {pod.name}")
        return self._keeping[pod.id]

    async def keep(self, pod: PodSeen) -> None:
        if (task := self.begin_keeping(pod)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        for task in self._keeping.values():
            task.cancel()
        if self._keeping:
            await asyncio.wait(self._keeping.values())

    async def _keep(self, pod: PodSeen, workload: WorkloadId) -> None:
        """Beside its place, then renamed: half a log is never taken for a whole one."""
        path = self._path(workload)
        beside = path.with_suffix(".part")
        try:
            beside.unlink(missing_ok=True)
            descriptor = open_log(beside)
            try:
                await self._copy(pod, descriptor)
            finally:
                os.close(descriptor)
            beside.rename(path)
        except OSError as error:
            log.warning("the log of %s could not be kept: %s", workload, error)
        finally:
            self._keeping.pop(workload, None)

    async def _copy(self, pod: PodSeen, descriptor: int) -> None:
        left = self._cap
        try:
            async for chunk in read_logs(self._api, pod.namespace, pod.name, MAIN, follow=not pod.over):
                await asyncio.to_thread(os.write, descriptor, chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    return
        except (EngineRefused, EngineSilent) as error:
            if pod.running_since is not None or pod.ended is not None:
                log.info("the log of %s: %s", pod.name, error)
                os.write(descriptor, LOST_LINE)


async def skipped(chunks: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if count >= len(chunk):
            count -= len(chunk)
            continue
        yield chunk[count:]
        count = 0


@contextlib.contextmanager
def silence_is_the_end(of: object) -> Iterator[None]:
    """A log that cannot be read is shown as far as it can: what happened to its pod is told elsewhere."""
    try:
        yield
    except (EngineRefused, EngineSilent) as error:
        log.info("the log of %s: %s", of, error)
