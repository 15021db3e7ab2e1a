"""What the SSH gateway sends."""
from typing import Annotated

from pydantic import Field

from gpufairy.core.limits import Limit
from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text


class DoorBody(Strict):
    user: Text
    name: Text | None = None
    purpose: Text = "shell"


class SignInBody(Strict):
    user: Text


class RefusalsBody(Strict):
    """Whom it turned away since it last told."""

    counts: Annotated[dict[str, Annotated[int, Field(ge=0, le=2**31)]], Field(max_length=len(Limit))]

    def by_limit(self) -> dict[Limit, int]:
        """Those that are known here: a gateway of another version may count others."""
        return {Limit(name): times for name, times in self.counts.items() if name in set(Limit)}
