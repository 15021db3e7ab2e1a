"""What people read in their terminal: one line each, of printable characters alone."""
from gpufairy.core.errors import FairyError

LONGEST_LINE = 1000
RULES = {ord("\r"): " ", ord("\n"): " ", ord("\t"): " "}


def line(text: str) -> bytes:
    """Ready for a channel: a terminal in raw mode needs the carriage return, and nobody else minds it."""
    return b"fairy: " + printable(text).encode() + b"\r\n"


def trouble(error: FairyError) -> bytes:
    return line(error.detail) + (b"  \xe2\x86\x92 " + printable(error.next_step).encode() + b"\r\n" if error.next_step else b"")


def printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_LINE].translate(RULES))
