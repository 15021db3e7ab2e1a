"""A pretend shell for the fake engine: enough of `echo`, `exit` and `sleep` for a test to read like one on a real engine."""
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

_RESULT = re.compile(r'^(.*?)\s*>\s*"?\$FAIRY_RESULTS/([A-Za-z0-9._-]+)"?$')


@dataclass(frozen=True, slots=True)
class Played:
    """What a command would have done."""

    output: bytes = b""
    exit_code: int | None = None  # None: it goes on until somebody ends it
    results: Mapping[str, bytes] = field(default_factory=dict)


def play(argv: tuple[str, ...], env: Mapping[str, str]) -> Played:
    """`sh -c` with statements parted by semicolons, or one statement. What it does not know goes on for ever."""
    script = argv[2] if argv[:2] == ("sh", "-c") and len(argv) > 2 else shlex.join(argv)
    output, results, code = b"", {}, 0
    for statement in (part.strip() for part in script.split(";")):
        if (into := _RESULT.match(statement)) is not None:
            results[into[2]] = said(into[1], env)
            continue
        match shlex.split(statement):
            case ["echo", *_]:
                output += said(statement, env)
            case ["exit", number]:
                return Played(output, int(number), results)
            case ["true"]:
                code = 0
            case ["false"]:
                code = 1
            case _:
                return Played(output, None, results)
    return Played(output, code, results)


def said(statement: str, env: Mapping[str, str]) -> bytes:
    words = shlex.split(statement)[1:]
    return (" ".join(env.get(word[1:], "") if word.startswith("$") else word for word in words) + "\n").encode()
