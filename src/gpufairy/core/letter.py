"""Letter: what is sent to a channel, of one thing or of many. Plain text of it, the same for all who send text."""
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gpufairy.core.alert import Severity

MOST_SHOWN = 20  # in one letter: who needs more looks at the page
LONGEST = 500  # letters of one sentence: what strangers wrote may be in it


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to tell. Times are ISO 8601, as they are sent."""

    what: str  # the rule of an alert; of a user's message, as session_ended
    state: str  # firing, resolved; or told, of a user's message
    severity: str
    sentence: str
    todo: str = ""
    node: str = ""
    thing: str = ""
    alert: str = ""  # its id
    since: str = ""
    until: str = ""

    def to_text(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})


def item_of(text: str) -> Item:
    return Item(**{"what": "", "state": "", "severity": "", "sentence": "", **json.loads(text)})


@dataclass(frozen=True, slots=True)
class Letter:
    items: tuple[Item, ...]
    more: int = 0  # that are not in it
    link: str = ""
    to: str = ""  # an address, where the channel has several

    @property
    def severity(self) -> Severity:
        ranks = [Severity(item.severity) for item in self.items if item.state != "resolved"]
        return max(ranks, key=lambda one: one.rank, default=Severity.NOTE)


def letter_of(items: Sequence[Item], link: str, to: str = "", most: int = MOST_SHOWN) -> Letter:
    """The worst first, and no more than are read."""
    ranked = sorted(items, key=lambda item: (item.state == "resolved", -Severity(item.severity).rank))
    return Letter(tuple(ranked[:most]), max(0, len(items) - most), link, to)


def subject_of(letter: Letter) -> str:
    first = letter.items[0]
    rest = len(letter.items) + letter.more - 1
    return f"{mark_of(first)}{one_line(first.sentence)[:160]}" + (f" (and {rest} more)" if rest else "")


def text_of(letter: Letter) -> str:
    lines = []
    for item in letter.items:
        lines.append(f"{mark_of(item)}{one_line(item.sentence)}.")
        if item.todo and item.state != "resolved":
            lines.append(f"  What to do: {one_line(item.todo)}")
    if letter.more:
        lines.append(f"And {letter.more} more that are not listed here.")
    if letter.link:
        lines.append(f"\n{letter.link}")
    return "\n".join(lines)


def mark_of(item: Item) -> str:
    if item.state == "told":
        return ""
    return "[resolved] " if item.state == "resolved" else f"[{item.severity}] "


def one_line(text: str) -> str:
    """What strangers wrote must not look like a line of ours, or turn the text round."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"
