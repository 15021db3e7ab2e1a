"""What `fairy` understands, asked of its own parser: does the command exist, and each option of it?"""
import re
import shlex
from typing import Any

from gpufairy.cli.entry import root_command
from gpufairy.cli.table import COMMANDS, load

INLINE = re.compile(r"`(fairy [^`]+)`")
CALL = re.compile(r"(\./|/opt/gpufairy/)?fairy")
SIGNS = "|;&()<>"
ENDS = ("…", "...")


def wrong_with(typed: str) -> str | None:
    """None: it is understood. Words in capitals and dots stand for what a reader fills in."""
    try:
        calls = calls_in(typed)
    except ValueError as error:
        return f"{typed}: {error}"
    found = [walked(root_command(), [word for word in words[1:] if word not in ENDS]) for words in calls]
    return next((wrong for wrong in found if wrong is not None), None)


def walked(command: Any, words: list[str]) -> str | None:
    context = command.context_class(command, info_name="fairy")
    try:
        _options, rest, _order = command.make_parser(context).parse_args(list(words))
    except command_errors() as error:
        return f"{' '.join(words)}: {error}"
    if not hasattr(command, "commands") or not rest:
        return None
    name = rest[0]
    if name in COMMANDS and set(COMMANDS) <= set(command.commands):
        return walked(load(name), rest[1:])  # of the root, which knows its commands by name alone
    if name in command.commands:
        return walked(command.commands[name], rest[1:])
    return None if name.isupper() else f"there is no command {name!r} in {sorted(command.commands)}"


def command_errors() -> tuple[type[Exception], ...]:
    """Whichever click it is that typer brings along."""
    module = next(one for one in root_command().context_class.__mro__ if one.__name__ == "Context").__module__.rsplit(".", 1)[0]
    return (__import__(f"{module}.exceptions", fromlist=["UsageError"]).UsageError,)


def calls_in(script: str) -> list[list[str]]:
    """Every call of fairy in a line of shell, as its words."""
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=SIGNS)
    lexer.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(SIGNS):
            calls.append([])
        elif word != "sudo" or calls[-1]:
            calls[-1].append(word)
    return [words for words in calls if words and CALL.fullmatch(words[0])]


def inline_calls(page: str) -> list[str]:
    return [call for call in INLINE.findall(page) if not call.startswith("fairy: ")]
