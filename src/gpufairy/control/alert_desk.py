"""AlertDesk: what API and pages do about alerts and messages; what admins change is written down with who did it."""
from dataclasses import dataclass

from gpufairy.control.alerts import AlertWatch, new_id
from gpufairy.control.audit import note
from gpufairy.control.house import House
from gpufairy.control.outbox import Outbox
from gpufairy.control.user_messages import UserMessages
from gpufairy.core.alert import Alert
from gpufairy.core.silence import Silence
from gpufairy.core.user_channel import UserChannel
from gpufairy.wire.alerts import SilenceBody, UserChannelBody


@dataclass(frozen=True, slots=True)
class AlertDesk:
    house: House
    watch: AlertWatch
    outbox: Outbox
    messages: UserMessages

    async def acknowledge(self, actor: str, alert_id: str) -> Alert:
        alert = await self.watch.acknowledge(alert_id, actor)
        await note(self.house, actor, f"alert:{alert.rule}", "alert_acknowledged", alert.sentence)
        return alert

    async def silence(self, actor: str, body: SilenceBody) -> Silence:
        made = body.to_silence(actor, self.house.clock(), new_id)
        await self.watch.silence(made)
        await note(
            self.house, actor, f"silence:{made.id}", "alerts_silenced", f"{made.words} until {made.end:%Y-%m-%d %H:%M} UTC: {made.why}"
        )
        return made

    async def unsilence(self, actor: str, silence_id: str) -> None:
        ended = await self.watch.unsilence(silence_id)
        await note(self.house, actor, f"silence:{ended.id}", "silence_ended", ended.words)

    async def test(self, actor: str, channel: str) -> str:
        """Where it went."""
        place = await self.outbox.test(channel, actor)
        await note(self.house, actor, f"channel:{channel}", "channel_tested", f"a test went to {place}")
        return place

    async def put_channel(self, user: str, body: UserChannelBody) -> UserChannel:
        channel = body.to_channel(user, self.house.clock())
        await self.messages.put(channel)
        await note(self.house, user, f"user:{user}", "messages_set", f"by {channel.kind}, about {', '.join(channel.about)}")
        return channel

    async def remove_channel(self, user: str, kind: str) -> None:
        await self.messages.remove(user, kind)
        await note(self.house, user, f"user:{user}", "messages_removed", f"by {kind}")

    async def test_channel(self, user: str, kind: str) -> str:
        return await self.outbox.test(f"user:{user}:{kind}", user)
