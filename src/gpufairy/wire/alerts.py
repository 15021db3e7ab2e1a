"""Settings of alerts and of the channels by which they are told; bodies about silences and users' channels."""
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from gpufairy.core.alert import Rule, Severity
from gpufairy.core.alert_look import AlertLimits
from gpufairy.core.alert_rules import RULES
from gpufairy.core.alert_tell import Channel
from gpufairy.core.amounts import parse_duration, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.names import LABEL, nearest
from gpufairy.core.silence import ALL, Silence, checked_silence
from gpufairy.core.user_channel import Tells, UserChannel, UserKind, checked_about, checked_address, checked_url
from gpufairy.wire.read import Strict

KINDS = ("email", "slack", "webhook", "ntfy", "alertmanager")
SECURITY = ("starttls", "tls", "none")
Names = Annotated[list[str], Field(max_length=100)]
ShortText = Annotated[str, Field(max_length=500)]


class AlertsConfig(Strict):
    """What is bad, from when on, and how it is told. Where, is in [[channels]]."""

    enabled: bool = True
    off: Names = []  # noqa: RUF012 - rules that never fire; frozen with the model, as are the next
    memory_left: float | int = 4  # per cent of a host's memory: less is bad
    memory_within: str = "5m"  # it runs out by its trend
    disk_left: float | int = 5  # per cent of a file system
    disk_within: str = "24h"  # it is full by its trend
    inodes_left: float | int = 5  # per cent
    gpu_hot: float | int = 90  # °C, of GPUs that do not say at what they slow down
    gpu_memory_hot: float | int = 105  # °C
    host_hot: float | int = 95  # °C
    certificates: Names = []  # noqa: RUF012 - files, or HOST:PORT, that are looked at each hour
    certificate_within: str = "14d"  # it ends
    backup_within: str = "2d"  # the last one is no older
    starting_for: str = "30m"  # a session that starts for longer hangs
    gather: str = "5s"  # what comes within so long is told together
    repeat: str = "12h"  # what still fires and nobody has taken note of is told again; "off": once
    most_an_hour: int = 30  # messages to one channel; the rest goes together into the next
    users: Names = ["email", "ntfy", "slack", "webhook"]  # noqa: RUF012 - by what users may be told of their own sessions
    ntfy: str = "https://ntfy.sh"  # the server of users' topics

    def to_limits(self) -> AlertLimits:
        return AlertLimits(
            part(self.memory_left, "alerts.memory_left"), self.time("memory_within"), part(self.disk_left, "alerts.disk_left"),
            self.time("disk_within"), part(self.inodes_left, "alerts.inodes_left"), degrees(self.gpu_hot, "alerts.gpu_hot"),
            degrees(self.gpu_memory_hot, "alerts.gpu_memory_hot"), degrees(self.host_hot, "alerts.host_hot"),
            self.time("certificate_within"), self.time("backup_within"), self.time("starting_for"),
        )  # fmt: skip

    def to_rules(self) -> dict[str, Rule]:
        for rule in self.off:
            if rule not in RULES:
                raise BadInput(f"alerts.off: no rule {shown(rule)}{nearest(rule, RULES)}", "See `fairy alerts rules`.")
        return {name: rule for name, rule in RULES.items() if name not in self.off}

    def time(self, field: str) -> timedelta:
        return parse_duration(getattr(self, field), f"alerts.{field}")

    @property
    def repeat_after(self) -> timedelta | None:
        return None if self.repeat == "off" else self.time("repeat")

    @property
    def letters_an_hour(self) -> int:
        if not 1 <= self.most_an_hour <= 1000:
            raise BadInput(f"alerts.most_an_hour: {self.most_an_hour} is not between 1 and 1000", "30 is usual.")
        return self.most_an_hour

    @property
    def user_kinds(self) -> tuple[str, ...]:
        unknown = [kind for kind in self.users if kind not in set(UserKind)]
        if unknown:
            raise BadInput(f"alerts.users: found {shown(unknown[0])}", f"Write some of {', '.join(UserKind)}.")
        return tuple(self.users)


class ChannelConfig(Strict):
    """Where admins are told. What is secret is named by a file or a variable, never written here."""

    name: ShortText
    kind: ShortText  # email, slack, webhook, ntfy, alertmanager
    url: ShortText | None = None  # of all but email
    url_file: ShortText | None = None  # the same, where it is a secret, as Slack's are
    url_env: ShortText | None = None
    secret_file: ShortText | None = None  # webhook: signs what is sent; ntfy, alertmanager: a token
    secret_env: ShortText | None = None
    to: Names = []  # noqa: RUF012 - email: addresses
    sender: ShortText = ""  # email: from whom
    host: ShortText = ""  # email: the SMTP server
    port: int | None = None  # 587; 465 with tls; 25 with none
    security: ShortText = "starttls"  # or tls, none
    user: ShortText = ""  # email: to sign in with
    password_file: ShortText | None = None
    password_env: ShortText | None = None
    ca_file: ShortText | None = None  # who signed the server's certificate, if no authority that is generally known
    severity: ShortText = "warning"  # and worse: note, warning, critical
    rules: Names = ["*"]  # noqa: RUF012 - patterns
    nodes: Names = ["*"]  # noqa: RUF012 - patterns; alerts of the server itself have no node
    escalate_after: str | None = None  # told only of what nobody has taken note of for so long

    def to_channel(self) -> Channel:
        where = f"channels.{self.name[:40]}"
        if not LABEL.fullmatch(self.name) or ":" in self.name:
            raise BadInput(f"channels: {shown(self.name)} is no name of a channel", "Use letters, figures, . _ and -.")
        one_of(self.kind, KINDS, f"{where}.kind")
        one_of(self.severity, tuple(Severity), f"{where}.severity")
        one_of(self.security, SECURITY, f"{where}.security")
        if self.kind == "email":
            self._check_mail(where)
        elif sum(one is not None for one in (self.url, self.url_file, self.url_env)) != 1:
            raise BadInput(f"{where}: found no url, or more than one", "Give one of url, url_file, url_env.")
        if self.url is not None:
            checked_url(self.url, f"{where}.url")
        after = None if self.escalate_after is None else parse_duration(self.escalate_after, f"{where}.escalate_after")
        return Channel(self.name, self.kind, Severity(self.severity), tuple(self.rules), tuple(self.nodes), after)

    def _check_mail(self, where: str) -> None:
        if not self.host or not self.to:
            raise BadInput(f"{where}: an email channel needs host and to", "Name the SMTP server, and one address or more.")
        for address in (*self.to, *([self.sender] if self.sender else [])):
            checked_address(UserKind.EMAIL, address)
        if (self.user or self.password_file or self.password_env) and self.security == "none":
            raise BadInput(f"{where}.security: a password would travel in the open", "Write starttls or tls.")


class SilenceBody(Strict):
    why: ShortText
    time: ShortText = "2h"
    start: ShortText | None = None  # a time of ISO 8601; None: now
    rule: ShortText = ALL
    node: ShortText = ALL
    thing: ShortText = ALL

    def to_silence(self, by: str, now: datetime, new_id: Callable[[], str]) -> Silence:
        begin = now if self.start is None else moment(self.start, "start")
        made = Silence(new_id(), begin, begin + parse_duration(self.time, "time"), by, self.why, self.rule, self.node, self.thing)
        return checked_silence(made, now)


class UserChannelBody(Strict):
    kind: ShortText
    address: ShortText
    about: Annotated[list[str], Field(max_length=20)] = list(Tells)  # noqa: RUF012 - frozen with the model

    def to_channel(self, user: str, now: datetime) -> UserChannel:
        return UserChannel(user, self.kind, checked_address(self.kind, self.address), checked_about(tuple(self.about)), now)


def moment(text: str, what: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{what}: {shown(text)} is no time", "Write it like 2026-11-15T08:00:00Z.") from None
    if at.tzinfo is None:
        raise BadInput(f"{what}: {shown(text)} names no zone", "Write it like 2026-11-15T08:00:00Z or …+09:00.")
    return at


def one_of(found: str, known: tuple[str, ...], where: str) -> None:
    if found not in known:
        raise BadInput(f"{where}: found {shown(found)}{nearest(found, known)}", f"Write one of {', '.join(known)}.")


def part(percent: float, what: str) -> float:
    if not 0 <= percent <= 100:
        raise BadInput(f"{what}: {percent} is not between 0 and 100", "Write per cent, such as 5.")
    return percent / 100


def degrees(heat: float, what: str) -> float:
    if not 20 <= heat <= 150:
        raise BadInput(f"{what}: {heat} is not between 20 and 150", "Write degrees Celsius, such as 90.")
    return float(heat)
