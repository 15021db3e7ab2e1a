"""`fairy logs`: a session's output, byte for byte."""
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from gpufairy.cli.follow import Follower
from gpufairy.cli.options import AsJson, Name, connect, one_command
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.words import print_json, write_raw
from gpufairy.client.protocol import Lines


def _logs(
    ctx: typer.Context,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it comes, until the session ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a session's output."""
    with connect(ctx) as fairy:
        if follow:
            sink = JsonLines(name) if as_json else write_raw
            Follower(fairy, sink, StatusLine()).to_end(fairy.session(name))
            if isinstance(sink, JsonLines):
                sink.end()
        elif as_json:
            print_json({"session": name, "lines": list(_lines(fairy.logs(name)))})
        else:
            for chunk in fairy.logs(name):
                _write_all(chunk)


@dataclass(slots=True)
class JsonLines:
    """A line of output as a line of JSON, once it is whole."""

    session: str
    lines: Lines = field(default_factory=Lines)

    def __call__(self, chunk: bytes) -> int:
        for line in self.lines.feed(chunk):
            self._print(line)
        return len(chunk)

    def end(self) -> None:
        if self.lines.rest:
            self._print(self.lines.rest)

    def _print(self, line: bytes) -> None:
        print_json({"session": self.session, "line": line.decode(errors="replace")})


def _write_all(chunk: bytes) -> None:
    while chunk:
        chunk = chunk[write_raw(chunk) :]


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    lines = Lines()
    for chunk in chunks:
        yield from (line.decode(errors="replace") for line in lines.feed(chunk))
    if lines.rest:
        yield lines.rest.decode(errors="replace")


logs = one_command(_logs, "fairy logs -f brave-otter")
