"""Couriers, as the settings ask for them."""
from collections.abc import Sequence
from functools import partial

from gpufairy.core.errors import BadInput
from gpufairy.core.user_channel import UserKind, checked_url
from gpufairy.couriers.contract import Courier
from gpufairy.couriers.hooks import Alertmanager, Endpoint, Ntfy, Slack, Webhook
from gpufairy.couriers.kept_secrets import secret
from gpufairy.couriers.mail import PORTS, Mail, MailServer
from gpufairy.wire.alerts import ChannelConfig

ALL_AT_ONCE = 1000  # Alertmanager groups by itself


def make_courier(config: ChannelConfig) -> Courier:
    if config.kind == "email":
        return Mail(mail_server(config), tuple(config.to))
    kept = partial(secret, config.secret_file, config.secret_env, f"the secret of channel {config.name}")
    to = Endpoint(partial(url_of, config), kept, config.ca_file)
    if config.kind == "alertmanager":
        return Alertmanager(to, ALL_AT_ONCE)
    made: dict[str, type[Slack] | type[Webhook] | type[Ntfy]] = {"slack": Slack, "webhook": Webhook, "ntfy": Ntfy}
    return made[config.kind](to)


def make_user_courier(kind: str, address: str, channels: Sequence[ChannelConfig], ntfy: str) -> Courier:
    """By the mail server of the first e-mail channel; by the topic server of the settings; or straight to a URL of the user's."""
    if kind == UserKind.EMAIL:
        mail = next((one for one in channels if one.kind == "email"), None)
        if mail is None:
            raise BadInput("this server sends no e-mail", "An admin sets a channel of kind email in fairy.toml; or choose ntfy.")
        return Mail(mail_server(mail), (address,))
    if kind == UserKind.NTFY:
        return Ntfy(Endpoint(lambda: ntfy, no_secret), topic=address)
    to = Endpoint(lambda: address, no_secret, public_only=True)
    return Slack(to) if kind == UserKind.SLACK else Webhook(to)


def mail_server(config: ChannelConfig) -> MailServer:
    password = partial(secret, config.password_file, config.password_env, f"the password of channel {config.name}")
    sender = config.sender or config.to[0]
    return MailServer(config.host, config.port or PORTS[config.security], config.security, sender, config.user, password, config.ca_file)


def url_of(config: ChannelConfig) -> str:
    found = config.url or secret(config.url_file, config.url_env, f"the url of channel {config.name}") or ""
    return checked_url(found, f"the url of channel {config.name}")


def no_secret() -> None:
    return None
