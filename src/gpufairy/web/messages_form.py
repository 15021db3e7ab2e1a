"""My account: where I am told of my own sessions, beside page and terminal."""
from collections.abc import Mapping
from dataclasses import dataclass

from gpufairy.control.alert_desk import AlertDesk
from gpufairy.core.errors import Conflict
from gpufairy.core.user_channel import Tells, UserKind
from gpufairy.web.forms import no_such_deed
from gpufairy.web.speech import _
from gpufairy.wire.alerts import UserChannelBody
from gpufairy.wire.read import read

MESSAGE_DEEDS = ("set-messages", "remove-messages", "test-messages")


@dataclass(frozen=True, slots=True)
class MessageRow:
    kind: str
    title: str
    address: str
    about: str


@dataclass(frozen=True, slots=True)
class MessagesBlock:
    rows: tuple[MessageRow, ...] = ()
    offered: tuple[tuple[str, str], ...] = ()
    abouts: tuple[tuple[str, str], ...] = ()


def messages_of(desk: AlertDesk | None, user: str) -> MessagesBlock:
    if desk is None:
        return MessagesBlock()
    rows = tuple(
        MessageRow(one.kind, kind_words(one.kind), one.shown, ", ".join(about_words(about) for about in one.about))
        for one in desk.messages.of(user)
    )
    return MessagesBlock(
        rows, tuple((kind, kind_words(kind)) for kind in desk.messages.kinds), tuple((one, about_words(one)) for one in Tells)
    )


async def change_messages(desk: AlertDesk | None, user: str, deed: str, fields: Mapping[str, str]) -> None:
    if desk is None:
        raise Conflict("this server sends no messages", "Start it with `fairy up`.")
    match deed:
        case "set-messages":
            about = [one for one in Tells if fields.get(f"about-{one}")]
            body = {"kind": fields.get("kind", ""), "address": fields.get("address", ""), "about": about}
            await desk.put_channel(user, read(UserChannelBody, body, "messages"))
        case "remove-messages":
            await desk.remove_channel(user, fields.get("kind", ""))
        case "test-messages":
            await desk.test_channel(user, fields.get("kind", ""))
        case _:
            raise no_such_deed(deed)


def kind_words(kind: str) -> str:
    return {UserKind.EMAIL: _("e-mail"), UserKind.NTFY: "ntfy", UserKind.SLACK: "Slack", UserKind.WEBHOOK: _("webhook")}.get(
        UserKind(kind), kind
    )


def about_words(about: str) -> str:
    words = {
        Tells.STARTED: _("starts after a wait"), Tells.ENDING: _("is about to end"), Tells.ENDED: _("ended"), Tells.FAILED: _("failed"),
        Tells.IDLE: _("is idle"), Tells.QUOTA: _("waits for a quota, or your disk limit is near"),
    }  # fmt: skip
    return words.get(Tells(about), about)
