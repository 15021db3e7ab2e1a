"""What both clients can do about leaks and maintenance windows: mixed into `Fairy` and `AsyncFairy`."""
from typing import Any

from gpufairy.client.protocol import Call, Record, path_of
from gpufairy.client.transport import Transport


def leaks_call() -> Call:
    return Call("GET", path_of("leaks"))


def windows_call() -> Call:
    return Call("GET", path_of("maintenance"))


def plan_call(node: str, body: Record) -> Call:
    return Call("POST", path_of("nodes", node, "maintenance"), {name: value for name, value in body.items() if value is not None})


def end_call(window_id: str) -> Call:
    return Call("DELETE", path_of("maintenance", window_id))


class HostMethods:
    _transport: Transport

    def leaks(self) -> Any:
        """What is held by nobody, and what was mended of late."""
        return self._transport.ask(leaks_call())

    def maintenance(self) -> Any:
        """Windows that are not over."""
        return self._transport.ask(windows_call())["items"]

    def plan_maintenance(self, node: str, body: Record) -> Any:
        """{"why": "new disk", "start": "2026-11-20T09:00:00Z", "end": …} or with "time": "2h" in place of the end."""
        return self._transport.ask(plan_call(node, body))

    def end_maintenance(self, window_id: str) -> Any:
        return self._transport.ask(end_call(window_id))


class AsyncHostMethods:
    async def _ask(self, call: Call) -> Any:
        raise NotImplementedError

    async def leaks(self) -> Any:
        return await self._ask(leaks_call())

    async def maintenance(self) -> Any:
        return (await self._ask(windows_call()))["items"]

    async def plan_maintenance(self, node: str, body: Record) -> Any:
        return await self._ask(plan_call(node, body))

    async def end_maintenance(self, window_id: str) -> Any:
        return await self._ask(end_call(window_id))
