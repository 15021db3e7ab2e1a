"""The driver's two sockets: the one that the kubelet asks, and the one by which it finds that."""
import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from gpufairy.core.errors import FairyError
from gpufairy.node.dra.grpc_server import GrpcServer
from gpufairy.node.dra.messages import Prepared, asked_claims, plugin_info, prepared_answer, registration_trouble, unprepared_answer
from gpufairy.node.dra.prepare import Claims
from gpufairy.node.dra.values import DRIVER, Asked

VERSIONS = ("v1", "v1beta1")
log = logging.getLogger(__name__)


class Service:
    def __init__(self, home: Path, registry: Path, claims: Claims, on_registered: Callable[[], None]) -> None:
        """`home`: the driver's folder among the kubelet's plugins. `registry`: where the kubelet looks for new ones."""
        self._claims, self._on_registered, self._endpoint = claims, on_registered, home / "dra.sock"
        methods = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        asked = {f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{name}": of for version in VERSIONS for name, of in methods.items()}
        found = {"GetInfo": self._info, "NotifyRegistrationStatus": self._status}
        self._asked = GrpcServer(self._endpoint, asked)
        named = {f"/pluginregistration.Registration/{name}": of for name, of in found.items()}
        self._found = GrpcServer(registry / f"{DRIVER}-reg.sock", named)

    async def start(self) -> None:
        """The one that is asked first: the kubelet asks as soon as it has found us."""
        await self._asked.start()
        await self._found.start()

    async def mend(self) -> None:
        for server in (self._asked, self._found):
            if not server.is_open:
                log.warning("%s was taken away: it is made anew", server.path)
                await server.close()
                await server.start()

    async def close(self) -> None:
        await self._found.close()
        await self._asked.close()

    async def _info(self, _: bytes) -> bytes:
        return plugin_info(DRIVER, str(self._endpoint), [f"{version}.DRAPlugin" for version in VERSIONS])

    async def _status(self, message: bytes) -> bytes:
        if trouble := registration_trouble(message):
            log.error("the kubelet does not take the driver %s: %s", DRIVER, trouble)
        else:
            log.info("the kubelet has taken the driver %s", DRIVER)
            self._on_registered()
        return b""

    async def _prepare(self, message: bytes) -> bytes:
        claims = asked_claims(message)
        answers = await asyncio.gather(*(self._prepared(claim) for claim in claims))
        return prepared_answer({claim.uid: answer for claim, answer in zip(claims, answers, strict=True)})

    async def _prepared(self, claim: Asked) -> list[Prepared] | str:
        try:
            return await self._claims.prepare(claim)
        except FairyError as error:
            return trouble_with(claim, error)

    async def _unprepare(self, message: bytes) -> bytes:
        answers = {}
        for claim in asked_claims(message):
            try:
                await self._claims.unprepare(claim)
                answers[claim.uid] = ""
            except FairyError as error:
                answers[claim.uid] = trouble_with(claim, error)
        return unprepared_answer(answers)


def trouble_with(claim: Asked, error: FairyError) -> str:
    words = f"{error} {error.next_step}".strip()
    log.warning("%s: %s", claim.words, words)
    return words
