"""Keeps the slices of this node as they shall be: written when something changed here or there, which a watch tells."""
import asyncio
import contextlib
import http.client
import logging
import random
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpufairy.core.errors import EngineSilent, FairyError
from gpufairy.node.dra.slices import OfNode, agree, lacks_shares, next_generation, slice_bodies
from gpufairy.node.dra.values import DRIVER, Offer
from gpufairy.node.kube_access import KubeAccess
from gpufairy.node.kube_call import Connection, KubeCalls, KubeNo, silence

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CONFLICTS = (http.client.CONFLICT, http.client.NOT_FOUND)  # somebody was faster: it is looked at anew
WATCH_S = (240, 480)  # by chance, so that not all nodes ask at once
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
GATE_OFF = (
    "this cluster knows no shares of devices (the gate DRAConsumableCapacity is off, as it is below Kubernetes 1.36): "
    "each GPU is offered whole. Switch it on in API server, scheduler, controller manager and kubelets."
)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    offers: tuple[Offer, ...]
    driver_version: str


class Publisher:
    def __init__(self, access: Callable[[], KubeAccess], node: str, sharing: str, *, knows_shares: bool = True) -> None:
        self._access, self._calls, self._node, self._sharing = access, KubeCalls(access), node, sharing
        self._knows_shares = knows_shares
        self._uid = ""
        self._wanted: Wanted | None = None  # None: not known yet, so nothing is written
        self._is_taken = False
        self._news = asyncio.Event()
        self._watching: Connection | None = None
        self._lock = threading.Lock()  # over the last

    def offer(self, offers: Sequence[Offer], driver_version: str) -> None:
        wanted = Wanted(tuple(offers), driver_version)
        if wanted != self._wanted:
            self._wanted = wanted
            self.look()

    def taken(self) -> None:
        """The kubelet has taken the driver: before, pods that come here would fail, and be tried again a minute later."""
        self._is_taken = True
        self.look()

    def look(self) -> None:
        """Now, and not when the watch tells."""
        self._news.set()
        self._hang_up()

    async def run(self) -> None:
        """For ever."""
        said, wait_s = "", FIRST_WAIT_S
        while True:
            try:
                await self._turn()
                said, wait_s = "", FIRST_WAIT_S
            except FairyError as error:
                words = f"{error} {error.next_step}".strip()
                if words != said:
                    log.warning("the GPUs of this node are not told to the cluster: %s", words)
                said = words
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def leave(self) -> None:
        """Takes all slices of this node away. Raises FairyError."""
        self.look()
        for name in (await asyncio.to_thread(self._seen))[0]:
            await asyncio.to_thread(self._write, "DELETE", name)

    def close(self) -> None:
        self.look()
        self._calls.close()

    async def _turn(self) -> None:
        while self._wanted is None or not self._is_taken:
            await self._news.wait()
            self._news.clear()
        self._news.clear()
        version = await asyncio.to_thread(self._put)
        if version and not self._news.is_set():
            await asyncio.to_thread(self._wait, version)

    def _put(self) -> str:
        """The version of the list in which all was right; empty: something was written, so look again."""
        seen, version = self._seen()
        wanted = self._wanted
        assert wanted is not None
        node = OfNode(self._node, self._uid or self._node_uid(), self._sharing, wanted.driver_version, self._knows_shares)
        bodies = slice_bodies(node, wanted.offers, next_generation(seen))
        if agree(seen, bodies):
            return version
        for name, body in bodies.items():
            if name in seen:
                body["metadata"]["resourceVersion"] = seen[name]["metadata"]["resourceVersion"]
            answer = self._write("PUT" if name in seen else "POST", name, body)
            if answer is not None and lacks_shares(answer, body):
                log.warning("%s", GATE_OFF)
                self._knows_shares = False
                return ""
        for name in seen.keys() - bodies.keys():
            self._write("DELETE", name)
        log.info("%d GPUs and MIG instances of this node are offered to the cluster", len(wanted.offers))
        return ""

    def _seen(self) -> tuple[dict[str, Any], str]:
        told = self._calls.ask("GET", f"{SLICES}?{self._selected()}")
        try:
            return {one["metadata"]["name"]: one for one in told["items"]}, str(told["metadata"]["resourceVersion"])
        except (LookupError, TypeError) as error:
            raise EngineSilent(f"the API server's list of slices cannot be understood: {error}") from error

    def _selected(self) -> str:
        return f"fieldSelector=spec.driver%3D{DRIVER},spec.nodeName%3D{self._node}"

    def _node_uid(self) -> str:
        self._uid = str(self._calls.ask("GET", f"/api/v1/nodes/{self._node}")["metadata"]["uid"])
        return self._uid

    def _write(self, method: str, name: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        try:
            return self._calls.ask(method, SLICES if method == "POST" else f"{SLICES}/{name}", body)
        except KubeNo as error:
            if error.status not in CONFLICTS:
                raise
            return None

    def _wait(self, version: str) -> None:
        """Until one of them changes, the watch ends, or somebody hangs up."""
        limit_s = random.randint(*WATCH_S)
        connection = Connection(self._access(), limit_s + 10.0)
        with self._lock:
            if self._news.is_set():
                return
            self._watching = connection
        try:
            connection.begin("GET", f"{SLICES}?{self._selected()}&watch=1&resourceVersion={version}&timeoutSeconds={limit_s}")
            if not self._news.is_set():  # whoever hung up before there was a socket is heard here
                wait_for_event(connection)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._news.is_set():
                raise silence(error, connection.access) from error
        finally:
            with self._lock:
                self._watching = None
            connection.close()

    def _hang_up(self) -> None:
        with self._lock:
            if self._watching is not None and self._watching.sock is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._watching.sock, socket.SHUT_RDWR)  # TLS's own would take the socket from its reader


def wait_for_event(connection: Connection) -> None:
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise http.client.HTTPException(f"status {answer.status} to a watch")
    answer.readline()
