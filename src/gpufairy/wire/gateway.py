"""What the SSH gateway sends."""
from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text


class DoorBody(Strict):
    user: Text
    name: Text | None = None
    purpose: Text = "shell"


class SignInBody(Strict):
    user: Text
