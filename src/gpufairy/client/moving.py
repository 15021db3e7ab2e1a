"""The calls of a move, to one of the two servers. Kept apart from `Fairy`: only `fairy move` makes them."""
from collections.abc import Iterator, Sequence
from typing import Any

from gpufairy.client.protocol import Call, JsonLines, Record, path_of
from gpufairy.client.transport import Transport

HOME_LIMIT_S = 180.0  # where a home lies behind a pod, that must come up first; and a gigabyte takes a while to hash
OCTETS = (("Content-Type", "application/octet-stream"),)


class MoveCalls:
    def __init__(self, url: str, token: str) -> None:
        self._transport = Transport(url, token)

    def close(self) -> None:
        self._transport.close()

    def page(self, what: str, after: int) -> Any:
        """`what`: "past" or "readings"."""
        return self._transport.ask(Call("GET", path_of("move", what, after=after), limit_s=HOME_LIMIT_S))

    def put(self, what: str, items: Sequence[Record]) -> int:
        """How many were new."""
        call = Call("POST", path_of("move", what), {"items": list(items)}, limit_s=HOME_LIMIT_S, harmless=True)
        return int(self._transport.ask(call)["new"])

    def files(self, user: str) -> Iterator[Record]:
        lines = JsonLines()
        for chunk in self._transport.stream(Call("GET", path_of("move", "homes", user), limit_s=HOME_LIMIT_S)):
            yield from lines.feed(chunk)

    def hashes(self, user: str, paths: Sequence[str]) -> Any:
        call = Call("POST", path_of("move", "homes", user, "hashes"), {"paths": list(paths)}, limit_s=HOME_LIMIT_S, harmless=True)
        return self._transport.ask(call)["items"]

    def read(self, user: str, wanted: Sequence[Record]) -> Iterator[bytes]:
        return self._transport.stream(Call("POST", path_of("move", "homes", user, "read"), {"wanted": list(wanted)}, limit_s=HOME_LIMIT_S))

    def write(self, user: str, frames: bytes) -> Any:
        call = Call("POST", path_of("move", "homes", user, "pieces"), raw=frames, extra=OCTETS, limit_s=HOME_LIMIT_S, harmless=True)
        return self._transport.ask(call)["items"]
