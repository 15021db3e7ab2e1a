"""Bodies about people and nodes: users, tokens, SSH keys, drains."""
from typing import Annotated

from pydantic import Field

from gpufairy.core.errors import BadInput
from gpufairy.core.people import Role
from gpufairy.wire.read import Strict

Short = Annotated[str, Field(max_length=255)]


class UserBody(Strict):
    name: Short
    role: Short = "user"
    team: Short | None = None


class UserChangeBody(Strict):
    role: Short | None = None
    disabled: bool | None = None
    team: Short | None = None  # an empty one takes the user out of the team
    share: float | int | None = None  # of the team's part of the GPUs, against those of the others in it


class TokenBody(Strict):
    label: Short = "command line"
    expires: Short | None = None  # such as 30d; None: good until revoked
    user: Short | None = None  # admins: for somebody else
    scope: Short = "full"


class KeyBody(Strict):
    key: Annotated[str, Field(max_length=16384)]
    user: Short | None = None


class DrainBody(Strict):
    why: Short | None = None


def read_role(text: str) -> Role:
    if text not in set(Role):
        raise BadInput(f"role: found {text[:40]!r}", "Write user or admin.")
    return Role(text)


def read_scope(text: str) -> str:
    """A page's token is made by signing in alone."""
    if text not in ("full", "metrics"):
        raise BadInput(f"scope: found {text[:40]!r}", "Write full or metrics.")
    return text
