"""Alerts and messages, built as the settings ask for them."""
import asyncio
from collections.abc import Sequence
from functools import partial

from gpufairy import __version__
from gpufairy.control.alert_desk import AlertDesk
from gpufairy.control.alerts import AlertSettings, AlertSources, AlertWatch
from gpufairy.control.disk_messages import DiskMessages
from gpufairy.control.house import House
from gpufairy.control.loop import Loop
from gpufairy.control.outbox import Outbox, OutboxSettings
from gpufairy.control.user_messages import UserMessages
from gpufairy.core.alert_tell import Channel
from gpufairy.core.errors import BadInput
from gpufairy.couriers.certificates import look_at
from gpufairy.couriers.make import make_courier, make_user_courier
from gpufairy.wire.config import Config


async def open_alert_desk(house: House, config: Config, url: str) -> AlertDesk:
    desk = make_alert_desk(house, config, url)
    await desk.watch.load()
    await desk.messages.load()
    return desk


def make_alert_desk(house: House, config: Config, url: str) -> AlertDesk:
    alerts = config.alerts
    channels = checked_channels(config)
    couriers = {one.name: make_courier(one) for one in config.channels}
    messages = UserMessages(house, alerts.user_kinds, lambda kind, address: make_user_courier(kind, address, config.channels, alerts.ntfy))
    settings = OutboxSettings(url, alerts.time("gather"), alerts.letters_an_hour)
    outbox = Outbox(house.store.outbox, house.clock, couriers, settings, of_user=messages.courier_of)
    watching = AlertSettings(alerts.to_rules(), alerts.to_limits(), channels, alerts.repeat_after, __version__)
    watch = AlertWatch(house, watching, AlertSources(certificates=partial(look_at, alerts.certificates)))
    watch.on_news = outbox.news.set
    return AlertDesk(house, watch, outbox, messages)


def checked_channels(config: Config) -> tuple[Channel, ...]:
    names = [one.name for one in config.channels]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"channels: two are called {twice[:40]!r}", "Give each a name of its own.")
    return tuple(one.to_channel() for one in config.channels)


def alert_loops(desk: AlertDesk, config: Config) -> list[Loop]:
    watching = [Loop("alerts", desk.watch.look, asyncio.Event(), every_s=1)] if config.alerts.enabled else []
    return [
        *watching,
        Loop("messages", desk.messages.look, asyncio.Event(), every_s=2),
        Loop("disk messages", DiskMessages(desk.house, desk.messages).look, asyncio.Event(), every_s=10),
        Loop("outbox", desk.outbox.look, desk.outbox.news, every_s=1, pause_s=0.2),
    ]


def tell_failures(desk: AlertDesk, loops: Sequence[Loop]) -> None:
    desk.watch.sources.failing = lambda: [(loop.name, loop.failing) for loop in loops if loop.failing is not None]
