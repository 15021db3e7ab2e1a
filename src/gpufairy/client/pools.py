"""What both clients can do about pools: mixed into `Fairy` and `AsyncFairy`."""
from typing import Any

from gpufairy.client.protocol import Call, Record, path_of
from gpufairy.client.transport import Transport

CLOUD_LIMIT_S = 120.0  # a cloud is asked several things, one after the other


def pools_call() -> Call:
    return Call("GET", path_of("pools"))


def pool_call(name: str) -> Call:
    return Call("GET", path_of("pools", name), limit_s=CLOUD_LIMIT_S)


def add_call(body: Record) -> Call:
    said = {name: value for name, value in body.items() if value is not None}
    return Call("POST", path_of("pools"), said, limit_s=CLOUD_LIMIT_S, harmless=True)


def remove_call(name: str) -> Call:
    return Call("DELETE", path_of("pools", name), limit_s=CLOUD_LIMIT_S)


class PoolMethods:
    _transport: Transport

    def pools(self) -> Any:
        return self._transport.ask(pools_call())["items"]

    def pool(self, name: str) -> Any:
        return self._transport.ask(pool_call(name))

    def add_pool(self, body: Record) -> Any:
        """{"name": "train-gpu", "cloud": "karpenter", "instance": "g5.xlarge", "max": 4}: sent twice it is one pool."""
        return self._transport.ask(add_call(body))

    def remove_pool(self, name: str) -> Any:
        return self._transport.ask(remove_call(name))


class AsyncPoolMethods:
    async def _ask(self, call: Call) -> Any:
        raise NotImplementedError

    async def pools(self) -> Any:
        return (await self._ask(pools_call()))["items"]

    async def pool(self, name: str) -> Any:
        return await self._ask(pool_call(name))

    async def add_pool(self, body: Record) -> Any:
        return await self._ask(add_call(body))

    async def remove_pool(self, name: str) -> Any:
        return await self._ask(remove_call(name))
