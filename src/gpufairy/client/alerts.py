"""What both clients can do about alerts and messages: mixed into `Fairy` and `AsyncFairy`."""
from typing import Any

from gpufairy.client import alert_calls as calls
from gpufairy.client.protocol import Call, Record
from gpufairy.client.transport import Transport


class AlertMethods:
    _transport: Transport

    def alerts(self, *, past: bool = False, node: str = "") -> Any:
        """What fires or is pending; or, with `past`, the last that are over."""
        return self._transport.ask(calls.alerts(past=past, node=node))["items"]

    def acknowledge_alert(self, alert_id: str) -> Any:
        return self._transport.ask(calls.acknowledge_alert(alert_id))

    def alert_rules(self) -> Any:
        return self._transport.ask(calls.alert_rules())["items"]

    def uptime(self) -> Any:
        return self._transport.ask(calls.uptime())["items"]

    def silences(self) -> Any:
        return self._transport.ask(calls.silences())["items"]

    def silence_alerts(self, body: Record) -> Any:
        """As {"node": "gpu01", "time": "2h", "why": "new disk"}; patterns also for "rule" and "thing"."""
        return self._transport.ask(calls.silence_alerts(body))

    def unsilence_alerts(self, silence_id: str) -> None:
        self._transport.ask(calls.unsilence_alerts(silence_id))

    def alert_channels(self) -> Any:
        return self._transport.ask(calls.alert_channels())["items"]

    def test_channel(self, name: str) -> Any:
        return self._transport.ask(calls.test_channel(name))

    def messages(self) -> Any:
        """Where you are told of your own sessions, and what is offered."""
        return self._transport.ask(calls.messages())

    def set_messages(self, body: Record) -> Any:
        """As {"kind": "email", "address": "kim@lab.example", "about": ["failed"]}."""
        return self._transport.ask(calls.set_messages(body))

    def remove_messages(self, kind: str) -> None:
        self._transport.ask(calls.remove_messages(kind))

    def test_messages(self, kind: str) -> Any:
        return self._transport.ask(calls.test_messages(kind))


class AsyncAlertMethods:
    async def _ask(self, call: Call) -> Any:
        raise NotImplementedError

    async def alerts(self, *, past: bool = False, node: str = "") -> Any:
        return (await self._ask(calls.alerts(past=past, node=node)))["items"]

    async def acknowledge_alert(self, alert_id: str) -> Any:
        return await self._ask(calls.acknowledge_alert(alert_id))

    async def alert_rules(self) -> Any:
        return (await self._ask(calls.alert_rules()))["items"]

    async def uptime(self) -> Any:
        return (await self._ask(calls.uptime()))["items"]

    async def silences(self) -> Any:
        return (await self._ask(calls.silences()))["items"]

    async def silence_alerts(self, body: Record) -> Any:
        return await self._ask(calls.silence_alerts(body))

    async def unsilence_alerts(self, silence_id: str) -> None:
        await self._ask(calls.unsilence_alerts(silence_id))

    async def alert_channels(self) -> Any:
        return (await self._ask(calls.alert_channels()))["items"]

    async def test_channel(self, name: str) -> Any:
        return await self._ask(calls.test_channel(name))

    async def messages(self) -> Any:
        return await self._ask(calls.messages())

    async def set_messages(self, body: Record) -> Any:
        return await self._ask(calls.set_messages(body))

    async def remove_messages(self, kind: str) -> None:
        await self._ask(calls.remove_messages(kind))

    async def test_messages(self, kind: str) -> Any:
        return await self._ask(calls.test_messages(kind))
