"""Letters by HTTP: Slack and what takes the same, any webhook, ntfy, and Prometheus' Alertmanager."""
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from gpufairy.core.alert import Severity
from gpufairy.core.errors import NotDelivered
from gpufairy.core.letter import MOST_SHOWN, Item, Letter, subject_of, text_of
from gpufairy.couriers.http_post import place_of, post

JSON = {"Content-Type": "application/json; charset=utf-8"}
PRIORITY = {Severity.NOTE: 2, Severity.WARNING: 4, Severity.CRITICAL: 5}  # ntfy's, 1 to 5
STAYS_FOR = timedelta(days=7)  # Alertmanager forgets what is not told again; we tell it when it is over
Text = Callable[[], str]  # read when it is needed: a file may hold it


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: Text
    secret: Callable[[], str | None]
    ca_file: str | None = None
    public_only: bool = False

    @property
    def place(self) -> str:
        try:
            return place_of(self.url())
        except NotDelivered as error:
            return error.detail

    async def post(self, body: object, headers: dict[str, str], url: str | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        await post(url or self.url(), data, {**JSON, **headers}, ca_file=self.ca_file, public_only=self.public_only)

    def bearer(self) -> dict[str, str]:
        token = self.secret()
        return {} if token is None else {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True)
class Hook:
    """What the ways by HTTP have in common."""

    to: Endpoint
    most_items: int = MOST_SHOWN

    @property
    def place(self) -> str:
        return self.to.place


class Slack(Hook):
    async def send(self, letter: Letter) -> None:
        text = text_of(letter)
        # Nobody is called, and no link is hidden, by what strangers wrote.
        for char, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(char, instead)
        await self.to.post({"text": text}, {})


class Webhook(Hook):
    async def send(self, letter: Letter) -> None:
        """Signed over time and body, so that a recorded one is known for old. The same letter sent twice has the same id."""
        items, text = [asdict(item) for item in letter.items], text_of(letter)
        made = {"version": 1, "severity": letter.severity, "text": text, "items": items, "more": letter.more, "link": letter.link}
        body, now = json.dumps(made, ensure_ascii=False).encode(), str(int(datetime.now(UTC).timestamp()))
        headers = {"Fairy-Timestamp": now, "Fairy-Delivery": hashlib.sha256(body).hexdigest()[:32]}
        secret = self.to.secret()
        if secret is not None:
            headers["Fairy-Signature"] = "sha256=" + signature(secret, now, body)
        await self.to.post(body, headers)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Ntfy(Hook):
    topic: str = ""  # empty: the last part of the URL

    async def send(self, letter: Letter) -> None:
        parts = urlsplit(self.to.url())
        folder, _, last = parts.path.rstrip("/").rpartition("/")
        topic, path = (letter.to or self.topic, parts.path) if letter.to or self.topic else (last, folder)
        root = urlunsplit((parts.scheme, parts.netloc, path.rstrip("/") + "/", "", ""))
        said = {"topic": topic, "title": subject_of(letter), "message": text_of(letter), "priority": PRIORITY[letter.severity]}
        await self.to.post({**said, **({"click": letter.link} if letter.link else {})}, self.to.bearer(), root)


class Alertmanager(Hook):
    async def send(self, letter: Letter) -> None:
        url = self.to.url().rstrip("/").removesuffix("/api/v2/alerts") + "/api/v2/alerts"
        await self.to.post([told_to_alertmanager(item, letter.link, datetime.now(UTC)) for item in letter.items], self.to.bearer(), url)


def told_to_alertmanager(item: Item, link: str, now: datetime) -> dict[str, object]:
    labels = {"alertname": item.what, "severity": item.severity, "node": item.node, "thing": item.thing, "source": "gpufairy"}
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": item.sentence, "description": item.todo},
        "startsAt": item.since or now.isoformat(),
        "endsAt": item.until or (now + STAYS_FOR).isoformat(),
        **({"generatorURL": link} if link else {}),
    }
