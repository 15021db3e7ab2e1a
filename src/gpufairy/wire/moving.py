"""Bodies of a move between servers."""
from typing import Annotated, Any

from pydantic import Field

from gpufairy.wire.read import Strict

Path = Annotated[str, Field(min_length=1, max_length=8192)]


class MovedBody(Strict):
    """As the other server gave them: read anew where they are taken in."""

    items: Annotated[list[dict[str, Any]], Field(max_length=1000)]


class PathsBody(Strict):
    paths: Annotated[list[Path], Field(max_length=20_000)]


class WantedFile(Strict):
    path: Path
    offset: Annotated[int, Field(ge=0, le=2**62)] = 0


class WantedBody(Strict):
    wanted: Annotated[list[WantedFile], Field(max_length=20_000)]
