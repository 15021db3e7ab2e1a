"""What a session left behind as files, as far as it can be listed."""
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResultFile:
    path: str  # below the folder of results, parts parted by /
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ResultFiles:
    named: tuple[ResultFile, ...] = ()  # by path; as many as were asked for
    count: int = 0  # of all that were looked at, with those whose names are no text
    size_bytes: int = 0
    whole: bool = True  # False: there are more than anybody looked at


@dataclass(frozen=True, slots=True)
class ResultBytes:
    """One of them, as it is read."""

    size_bytes: int
    chunks: AsyncIterator[bytes]
