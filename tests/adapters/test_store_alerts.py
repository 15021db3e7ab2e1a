"""Alerts, silences, the outbox and users' channels, kept the same on SQLite and PostgreSQL."""
from dataclasses import replace
from datetime import timedelta

from store_builders import a_store

from builders import NOW
from gpufairy.core.alert import Alert, Severity
from gpufairy.core.alert_tell import Post
from gpufairy.core.letter import Item
from gpufairy.core.silence import Silence
from gpufairy.core.user_channel import UserChannel

ALERT = Alert("a1", "gpu_hot", "gpu01 GPU 0", "gpu01", Severity.CRITICAL, "it is hot", "Cool it.", NOW, NOW, fired_at=NOW)
HOUR = timedelta(hours=1)


def a_post(key: str, channel: str = "ops") -> Post:
    return Post(channel, key, Item("gpu_hot", "firing", "critical", f"item {key}"))


async def test_an_alert_is_kept_with_what_is_to_be_told_of_it_and_leaves_the_live_when_it_is_over(store_url: str):
    async with a_store(store_url) as store:
        await store.alerts.save([ALERT], [a_post("a1")], NOW)
        assert await store.alerts.live() == [ALERT]
        noted = replace(ALERT, acked_at=NOW, acked_by="kim", told_at=NOW)
        await store.alerts.save([noted], [a_post("a1")], NOW)
        assert await store.alerts.live() == [noted]
        assert [(one.channel, one.waiting) for one in await store.outbox.waiting()] == [("ops", 1)], "the same key is told once"
        over = replace(noted, resolved_at=NOW + HOUR, ended_why="it is over")
        await store.alerts.save([over], [], NOW)
        assert (await store.alerts.live(), await store.alerts.past(limit=5)) == ([], [over])
        assert await store.alerts.past(limit=5, node="gpu02") == []
        assert await store.alerts.past(limit=5, before=NOW) == []
        await store.alerts.forget(NOW + 2 * HOUR)
        assert await store.alerts.past(limit=5) == []


async def test_the_outbox_gives_what_waits_in_order_and_never_again_what_was_sent(store_url: str):
    async with a_store(store_url) as store:
        await store.outbox.add([a_post(str(number)) for number in range(5)] + [a_post("0", "other")], NOW, ("mark", "7"))
        assert await store.meta.get("mark") == "7"
        waiting = await store.outbox.of("ops")
        assert [one.item.sentence for one in waiting] == [f"item {number}" for number in range(5)]
        await store.outbox.sent("ops", waiting[1].number, NOW + HOUR)
        await store.outbox.give_up("ops", waiting[2].number, "too old", NOW)
        assert [one.item.sentence for one in await store.outbox.of("ops")] == ["item 3", "item 4"]
        assert await store.outbox.last_sent() == {"ops": NOW + HOUR}
        await store.outbox.add([a_post("0")], NOW)
        assert len(await store.outbox.of("ops")) == 2, "it was sent before"
        await store.outbox.forget(NOW + HOUR)
        assert len(await store.outbox.of("ops")) == 2, "what waits is never forgotten"


async def test_silences_end_and_users_choose_one_address_of_each_kind(store_url: str):
    async with a_store(store_url) as store:
        silence = Silence("s1", NOW, NOW + HOUR, "kim", "new disk", node="gpu0*")
        await store.alerts.put_silence(silence)
        assert await store.alerts.silences(NOW) == [silence]
        assert await store.alerts.silences(NOW + HOUR) == []
        for address in ("a@lab.example", "b@lab.example"):
            await store.alerts.put_user_channel(UserChannel("kim", "email", address, ("failed",), NOW))
        assert [one.address for one in await store.alerts.user_channels()] == ["b@lab.example"]
        await store.alerts.remove_user_channel("kim", "email")
        assert await store.alerts.user_channels() == []
