"""Secrets of channels: read from a file or a variable when they are needed, so that a new one counts at once, and shown to nobody."""
import os
from pathlib import Path

from gpufairy.core.errors import NotDelivered

LARGEST = 4096


def secret(file: str | None, variable: str | None, what: str) -> str | None:
    """None: none is named. `what`: for people, such as `the password of channel ops`."""
    if file is not None:
        return _checked(_read(file, what), what, file)
    if variable is not None:
        found = os.environ.get(variable)
        if found is None:
            raise NotDelivered(f"{what}: the variable {variable} is not set", "Set it where the server is started.")
        return _checked(found, what, variable)
    return None


def _read(file: str, what: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(LARGEST + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise NotDelivered(f"{what}: {file} cannot be read: {why}", "Check the path, and that the server may read it.") from None


def _checked(found: str, what: str, where: str) -> str:
    found = found.strip()
    if not found or len(found) > LARGEST or not found.isprintable():
        raise NotDelivered(f"{what}: {where} holds no line of plain text", "Put the secret there, and nothing else.")
    return found
