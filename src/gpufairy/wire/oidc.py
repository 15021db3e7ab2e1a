"""Settings of signing in by OpenID Connect."""
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from gpufairy.core.errors import BadInput
from gpufairy.wire.read import Strict

LARGEST_SECRET = 4096
Few = Annotated[list[str], Field(max_length=1000)]


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    client_secret: str
    title: str = "OpenID Connect"
    user_claim: str = "preferred_username"
    user_domain: str = ""  # what the claim must end in, after an @; it is taken off
    groups_claim: str = "groups"
    allowed_groups: tuple[str, ...] = ()  # empty: everybody whom the provider knows
    scopes: tuple[str, ...] = ("openid", "profile")
    add_users: bool = False


class OidcConfig(Strict):
    """Signing in to the page by whoever knows the lab's people."""

    issuer: str | None = None  # https://…, as the provider calls itself; None: nobody signs in so
    client_id: str | None = None
    client_secret_file: str | None = None  # a file with the secret and nothing else, readable by the server alone
    title: str = "OpenID Connect"  # on the button: "Sign in with …"
    user_claim: str = "preferred_username"  # which of its words is the user's name here
    user_domain: str = ""  # "lab.example": the claim must end in @lab.example, which is taken off
    groups_claim: str = "groups"
    allowed_groups: Few = []  # noqa: RUF012 - frozen with the model; empty: everybody whom the provider knows
    scopes: Few = ["openid", "profile"]  # noqa: RUF012
    add_users: bool = False  # true: whoever signs in so for the first time becomes a user; false: only those whom an admin added

    def to_settings(self) -> OidcSettings | None:
        if self.issuer is None:
            return None
        if self.client_id is None or self.client_secret_file is None:
            raise BadInput("oidc: issuer is set, and client_id or client_secret_file is not", "Set all three, or none.")
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise BadInput(f"oidc.issuer: {self.issuer[:80]!r} is not https", "Who signs people in must be asked over TLS.")
        return OidcSettings(
            self.issuer, self.client_id, read_secret(Path(self.client_secret_file)), self.title, self.user_claim, self.user_domain,
            self.groups_claim, tuple(self.allowed_groups), tuple(self.scopes), self.add_users,
        )  # fmt: skip


def read_secret(path: Path) -> str:
    try:
        secret = path.read_bytes()[: LARGEST_SECRET + 1].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"oidc.client_secret_file: {path} cannot be read: {error}", "Give a file with the client's secret.") from None
    if not secret or len(secret) > LARGEST_SECRET:
        raise BadInput(f"oidc.client_secret_file: {path} is empty or too large", "It should have the secret and nothing else.")
    return secret
