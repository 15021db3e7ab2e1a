"""Text that strangers wrote, made fit to be shown: no control characters, nothing that turns the line round.

Markup in it is escaped by the templates, not here.
"""
import re

from markupsafe import Markup

COLOURS = re.compile(r"\x1b\[[0-9;?]{0,32}[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)")  # what terminals take for colour, cursor, title
UNUSUAL = re.compile(r"[^\n\t\x20-\x7e\xa0\xb0\xb7\xd7\uac00-\ud7a3]")  # looked at one by one; not so what our own words are full of
OVERWRITTEN = re.compile(r"^.*\r(?!$)", re.MULTILINE)  # a progress bar's earlier states


def printable(value: object) -> object:
    """For every value a template prints. What cannot be seen is written out, as in `\\x1b`."""
    if not isinstance(value, str) or isinstance(value, Markup):  # Markup: a macro's own output, whose values came through here
        return value
    return UNUSUAL.sub(visible, value)


def visible(match: re.Match[str]) -> str:
    char = match[0]
    return char if char.isprintable() or char == "\N{NO-BREAK SPACE}" else char.encode("unicode_escape").decode()


def as_terminal(log: bytes) -> str:
    """A log as a terminal would leave it standing, without colours."""
    text = COLOURS.sub("", log.decode(errors="replace")).replace("\r\n", "\n")
    return OVERWRITTEN.sub("", text)
