"""Whose a container is that somebody started by hand: by its labels, or by the rule by which the lab names its containers."""
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.owner import KnownBy

USER = "USER"  # in a rule: here stands the user's name
PERSON = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,30}")  # wider than our own user names: accounts of a host may have capitals and dots
OWN_LABELS = "gpufairy."  # what we put on sessions: on somebody else's container it is forged
SEPARATORS = "-_."
LONGEST_RULE, LONGEST_NAME, MOST_STARS = 100, 255, 8
_RULE = re.compile(r"[A-Za-z0-9*._-]+")
_NEXT = "Write USER where the user's name stands and * for anything, such as USER_*, *-USER or lab_USER_*."


@dataclass(frozen=True, slots=True)
class NamingRule:
    """`before` and `after` are patterns with * for anything."""

    before: str
    after: str

    @property
    def ends_name(self) -> str:
        """Separators beside the name cannot be in it: so USER_* takes `kim` out of kim_bert_large, and *-USER `lee` out of run-2-lee."""
        return "".join(character for character in self.before[-1:] + self.after[:1] if character in SEPARATORS)


@dataclass(frozen=True, slots=True)
class NamingRules:
    rules: tuple[NamingRule, ...] = ()
    labels: tuple[str, ...] = ("user", "owner")
    known_users: frozenset[str] | None = None  # only these are found; None: anything that looks like a name

    def user_of(self, name: str, labels: Mapping[str, str]) -> tuple[str, KnownBy] | None:
        """A label was meant to say it, so it counts more than a name."""
        for label in self.labels:
            if not label.startswith(OWN_LABELS) and self._is_user(labels.get(label, "")):
                return labels[label], KnownBy.LABEL
        found = next((user for rule in self.rules if (user := named_by(rule, name, self.known_users))), None)
        return (found, KnownBy.RULE) if found else None

    def _is_user(self, text: str) -> bool:
        return bool(PERSON.fullmatch(text)) and (self.known_users is None or text in self.known_users)


def parse_rules(texts: Iterable[str], what: str = "naming rule") -> tuple[NamingRule, ...]:
    return tuple(parse_rule(text, what) for text in texts)


def parse_rule(text: str, what: str = "naming rule") -> NamingRule:
    if len(text) > LONGEST_RULE or not _RULE.fullmatch(text):
        raise BadInput(f"{what}: {shown(text)} has something else than letters, figures and * . _ -, or more than {LONGEST_RULE}", _NEXT)
    if text.count(USER) != 1:
        raise BadInput(f"{what}: {shown(text)} has USER {text.count(USER)} times, and must have it once", _NEXT)
    if text.count("*") > MOST_STARS:
        raise BadInput(f"{what}: {shown(text)} has more than {MOST_STARS} stars", _NEXT)
    before, _, after = text.partition(USER)
    if before.endswith("*") or after.startswith("*"):
        raise BadInput(f"{what}: {shown(text)} has a * right beside USER, so nobody can tell where the name ends", _NEXT)
    return NamingRule(before, after)


def named_by(rule: NamingRule, name: str, known_users: frozenset[str] | None = None) -> str | None:
    """The user that a container's name tells. Of known users the longest that fits: kim_a, not kim, has kim_a_train."""
    if len(name) > LONGEST_NAME:
        return None
    fitting = _fitting(rule, name)
    if known_users is not None:
        return max((user for user in fitting if user in known_users), key=len, default=None)
    return next((user for user in fitting if not any(character in user for character in rule.ends_name)), None)


def _fitting(rule: NamingRule, name: str) -> Iterator[str]:
    """All that may stand for USER: from the left on, short ones first."""
    ends = [place for place in range(len(name) + 1) if fnmatchcase(name[place:], rule.after)]
    for start in range(len(name)):
        if fnmatchcase(name[:start], rule.before):
            yield from (name[start:end] for end in ends if end > start and PERSON.fullmatch(name[start:end]))
