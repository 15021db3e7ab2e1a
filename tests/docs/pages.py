"""The pages of the manual as their reader meets them: blocks of commands, each with what is shown below it."""
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*) *$")
PROMPT = re.compile(r"^(?P<where>[a-z0-9]+@[a-z0-9-]+:[^$ ]*)?\$(?: |$)")
COMMANDS = ("", "sh", "console", "bash")  # a block without a word is one to type in
COMMENT = re.compile(r"(^|\s+)#(?!\w*\{).*$")


@dataclass(frozen=True, slots=True)
class Command:
    text: str  # as it is typed, with the lines it goes on to
    line: int  # of the page
    inside: bool  # typed in a session, by its prompt
    shown: tuple[str, ...] = ()  # what the page says that it prints
    program: bool = False  # Python, for the interpreter


@dataclass(frozen=True, slots=True)
class Block:
    page: str
    line: int
    language: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def of_commands(self) -> bool:
        return self.language in COMMANDS

    @property
    def commands(self) -> tuple[Command, ...]:
        if self.language == "python":
            return (Command(self.text, self.line + 1, inside=False, program=True),)
        return tuple(commands_in(self.lines, self.line + 1)) if self.of_commands else ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def commands_in(lines: tuple[str, ...], first: int) -> Iterator[Command]:
    """After prompts where there are any, else every line. What follows a prompted command up to the next is what it prints."""
    prompted = any(PROMPT.match(line) for line in lines)
    started: Command | None = None
    goes_on = False
    for number, line in enumerate(lines, first):
        prompt = PROMPT.match(line) if prompted else None
        if started is not None and goes_on:
            started = Command(f"{started.text}\n{line}", started.line, started.inside)
        elif prompt or (not prompted and line.strip() and not line.startswith("#")):
            if started is not None and started.text:
                yield started
            started = Command(line[prompt.end():] if prompt else line, number, bool(prompt and prompt["where"]))
        elif started is not None and prompted:
            started = Command(started.text, started.line, started.inside, (*started.shown, line))
        goes_on = started is not None and not started.shown and line.endswith("\\")
    if started is not None and started.text:
        yield started


def blocks(path: Path) -> list[Block]:
    found, began, language, indent, inside = [], 0, "", 0, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if fence and not began:
            began, language, indent, inside = number, fence["language"], len(fence["indent"]), []
        elif fence and not fence["language"]:
            found.append(Block(path.relative_to(ROOT).as_posix().removeprefix("docs/"), began, language, tuple(inside)))
            began = 0
        elif began:
            inside.append(line[indent:])
    assert not began, f"{path}:{began}: a block that does not end"
    return found


@cache
def english() -> dict[str, list[Block]]:
    """Pages that are run, by name. Those made from the code are compared with it instead, and decisions hold no commands."""
    paths = [ROOT / "README.md", *sorted(path for path in DOCS.glob("*.md") if not path.name.endswith(".ko.md"))]
    return {path.relative_to(ROOT).as_posix().removeprefix("docs/"): blocks(path) for path in paths}


def without_comments(lines: tuple[str, ...]) -> list[str]:
    return [COMMENT.sub("", line).rstrip() for line in lines if COMMENT.sub("", line).strip()]
