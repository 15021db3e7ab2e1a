"""Classes in words for a terminal; dates and bounds as people write them; sheets of links and tar files as files."""
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from gpufairy.cli.exits import say
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.when import parse_when
from gpufairy.cli.words import clock_of
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count
from gpufairy.core.csv_text import csv_text
from gpufairy.core.errors import BadInput

KNOWN_BOUNDS = {"gpus": "gpus", "gpu-hours": "gpu_hours", "sessions": "sessions"}
KINDS = {
    "added": "added", "back": "let in again", "joined": "users who take part", "same": "as they were", "missing": "missing",
}  # fmt: skip
SHOWN = 10  # names of each sort
PRIVATE = 0o600  # whoever has the sheet can come in as anybody on it
STATES = {"before": "not begun", "open": "open", "closing": "closing", "archived": "archived"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def starts(text: str | None) -> str | None:
    return None if text is None else parse_when(text, datetime.now(UTC), "--start").isoformat()


def ends(text: str | None, what: str) -> str | None:
    """Of a day alone, its end: a class that ends on a day has that day."""
    if text is None:
        return None
    if _DAY.fullmatch(text.strip()):
        try:
            text = str(date.fromisoformat(text.strip()) + timedelta(days=1))
        except (ValueError, OverflowError):
            raise BadInput(f"{what}: there is no day {text.strip()}", "Write it like 2027-06-20.") from None
    return parse_when(text, datetime.now(UTC), what).isoformat()


def bounds_of(text: str | None, what: str) -> Record | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    for name, _, value in pairs:
        if name.strip() not in KNOWN_BOUNDS or not value.strip():
            raise BadInput(f"{what}: {name.strip()[:40]!r} is no bound", "Write it like gpus=8,gpu-hours=200,sessions=40.")
    return {KNOWN_BOUNDS[name.strip()]: value.strip() for name, _, value in pairs}


def print_looked(looked: Record, *, done: bool) -> None:
    found = looked["class"]
    if looked["encoding"]:
        print(f"read as {safe(looked['encoding'])}, columns {', '.join(map(safe, looked['columns']))}")
    for kind, words in KINDS.items():
        if looked[kind]:
            print(f"{len(looked[kind])} {words}: {names_words(looked[kind])}")
    for fault in looked["faults"]:
        where = f"line {fault['line']}: " if fault["line"] else ""
        say(f"{where}{fault['what']}")
    if looked["faults"]:
        print("Nothing was done: mend these lines first.")
    elif done:
        students = show_count(int(found["students_count"]), "student")
        print(f"class {safe(found['name'])}: {students}, {clock_of(found['start'])} to {clock_of(found['end'])}")
    else:
        print("Nothing was done: this is what it would do.")


def names_words(members: Sequence[Record]) -> str:
    shown = [safe(one["user"]) + (f" ({safe(one['name'])})" if one["name"] else "") for one in members[:SHOWN]]
    return ", ".join(shown) + (f" and {len(members) - SHOWN} more" if len(members) > SHOWN else "")


def print_classes(found: Sequence[Record]) -> None:
    if not found:
        print("No classes. Try: fairy class add cs231n --roster students.csv --end 2027-06-20")
        return
    columns = ["NAME", "STATE", "STUDENTS", "TEAM", "START", "END", "HAND-INS"]
    print_table(columns, [_row(one) for one in found])


def _row(found: Record) -> list[str]:
    until = clock_of(found["due"] or found["end"])
    hand_ins = f"until {until}" if found["hand_in_open"] else "closed"
    times = [clock_of(found["start"]), clock_of(found["end"])]
    return [safe(found["name"]), clear_words(found["state"]), str(found["students_count"]), safe(found["team"]), *times, hand_ins]


def clear_words(state: object) -> str:
    return STATES.get(str(state), safe(state))


def print_class(found: Record) -> None:
    defaults = [f"preset {safe(found['preset'])}" if found["preset"] else "", f"{safe(found['gpus'])} GPU" if found["gpus"] else ""]
    defaults.append(safe(found["image"]) if found["image"] else "")
    print_pairs([
        ("class", safe(found["name"])), ("state", clear_words(found["state"])), ("team", safe(found["team"])),
        ("from", clock_of(found["start"])), ("to", clock_of(found["end"])),
        ("hand-ins", hand_in_words(found)),
        ("sessions are", ", ".join(filter(None, defaults)) or "as for everybody"), ("quota", bounds_words(found["quota"])),
        ("of each", bounds_words(found["each"])), ("teachers", ", ".join(map(safe, found["teachers"])) or "none"),
        ("homes at the end", safe(found["homes"])),
    ])  # fmt: skip
    rows = [[safe(one["user"]), safe(one["name"]), safe(one["email"]), way_words(one)] for one in found["students"]]
    print_table(["USER", "NAME", "EMAIL", "STATE"], rows)


def hand_in_words(found: Record) -> str:
    if found["hand_in"] is None:
        return "in containers alone: sessions are plain processes here"
    return f"{safe(found['hand_in'])}, {'open' if found['hand_in_open'] else 'closed'}"


def bounds_words(bounds: Record) -> str:
    units = {"gpus": "GPUs", "gpu_hours": "GPU-hours a week", "sessions": "sessions"}
    return ", ".join(f"{bounds[name]:g} {unit}" for name, unit in units.items() if bounds.get(name) is not None) or "none"


def way_words(student: Record) -> str:
    if student["standing"] == "left":
        return "left"
    if student["being_reset"]:
        return "being reset"
    if student["signed_in"]:
        return "has come in"
    return "has a link" if student["link_waits"] else "no link yet"


def save_links(items: Sequence[Record], output: Path | None) -> None:
    if not items:
        print("Everybody has come in already. To make links all the same: --all.")
        return
    text = csv_text(["login", "name", "email", "link"], [[one["user"], one["name"], one["email"], one["url"]] for one in items], mark=True)
    if output is None:
        sys.stdout.write(text.removeprefix("\ufeff"))
        return
    try:
        output.touch(mode=PRIVATE)
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}", "The links are good: make them anew to see them.") from None
    print(f"{len(items)} links are in {output}. Each works once, until the class ends; whoever has the file can use them.")


def save(chunks: Iterable[bytes], output: Path) -> None:
    size = 0
    try:
        with output.open("xb") as file:
            for chunk in chunks:
                size += file.write(chunk)
    except OSError as error:
        raise BadInput(f"{output} cannot be written: {error.strerror}", "Give another name: -o FILE.") from None
    if size == 0:
        output.unlink()
        print("Nobody has handed anything in.")
        return
    print(f"{output}: {size:,} bytes")
