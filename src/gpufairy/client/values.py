"""Values of the API's answers, as people may be shown them: text that does nothing to a terminal, and times."""
from datetime import UTC, datetime


def safe(value: object) -> str:
    """Printable whatever it holds: a name or a reason must not move the cursor, turn the text round or ring the bell."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def time_of(text: object) -> datetime | None:
    """The time of `2026-11-15T08:00:00Z`; None if there is none."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
