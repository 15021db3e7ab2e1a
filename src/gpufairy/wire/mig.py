"""What is sent to plan and change how a GPU is cut by MIG."""
from typing import Annotated

from pydantic import Field

from gpufairy.wire.read import Strict
from gpufairy.wire.submit import Text


class CutBody(Strict):
    gpu: Text  # its UUID
    want: Annotated[list[Text], Field(min_length=1, max_length=64)]  # profiles; or just "whole": out of MIG mode


class AutoBody(Strict):
    gpus: Annotated[list[Text], Field(min_length=1, max_length=1024)]  # UUIDs
    on: bool
