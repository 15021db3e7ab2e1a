"""Sentences of core in another tongue: known by their patterns, in which what changes stands in braces.

A sentence that no pattern knows is shown as it is: better English than wrong.
"""
import re
from functools import cache, lru_cache

from gpufairy.web.asked import Language, asked
from gpufairy.web.speech import spoken

CONTEXT = "sentence\x04"  # how gettext writes the context of a message
HOLE = re.compile(r"\{([a-z_]+)\}")
PARTS = re.compile(r"(; |, (?=and |but ))")
MOST_KEPT = 4096
LONGEST = 1000  # letters: a longer one holds what strangers wrote, and every pattern would walk through it


def told(text: str) -> str:
    """For every sentence of core that a page shows."""
    language = asked().language
    return text if language is Language.EN or not text or len(text) > LONGEST else _told(text, language)


@lru_cache(MOST_KEPT)
def _told(text: str, language: Language) -> str:
    whole = one_told(text, language)
    if whole is not None:
        return whole
    return "".join(one_told(part, language) or part for part in PARTS.split(text))


def one_told(text: str, language: Language) -> str | None:
    for pattern, other in patterns(language):
        found = pattern.fullmatch(text)
        if found is not None:
            return other.format(**{name: one_told(value, language) or value for name, value in found.groupdict().items()})
    return None


@cache
def patterns(language: Language) -> list[tuple[re.Pattern[str], str]]:
    """The most particular first: with the most fixed letters."""
    catalogue: dict[str, str] = getattr(spoken(language), "_catalog", {})
    known = [(key.removeprefix(CONTEXT), value) for key, value in catalogue.items() if isinstance(key, str) and key.startswith(CONTEXT)]
    known.sort(key=lambda pair: -len(HOLE.sub("", pair[0])))
    return [(re.compile(pattern_of(english), re.DOTALL), other) for english, other in known]


def pattern_of(english: str) -> str:
    pieces, names = HOLE.split(english), set[str]()
    pattern = ""
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            pattern += re.escape(piece)
        else:
            pattern += f"(?P={piece})" if piece in names else f"(?P<{piece}>(?:(?!; ).)+?)"
            names.add(piece)
    return pattern
