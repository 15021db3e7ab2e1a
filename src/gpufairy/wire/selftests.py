"""What is sent to start a self-test."""
from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text


class IsolationBody(Strict):
    gpu: Text | None = None  # its UUID; None: every real one
