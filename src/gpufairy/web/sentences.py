"""Sentences of core in another tongue: known by their patterns, in which what changes stands in braces.

A sentence that no pattern knows is shown as it is: better English than wrong.
"""
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from gpufairy.web.asked import Language, asked
from gpufairy.web.speech import spoken

CONTEXT = "sentence\x04"  # how gettext writes the context of a message
HOLE = re.compile(r"\{([a-z_]+)\}")
PARTS = re.compile(r"(; |, (?=and |but )|(?<=[.!?]) )")
NEAR = re.compile(r" (\(did you mean [^()]{1,80}\?\))")  # set into sentences wherever a name is not known (names.nearest)
WORD = re.compile(r"[A-Za-z]{3,}")
WHOLE_WORD = re.compile(r"(?<![A-Za-z\0])[A-Za-z]{3,}(?![A-Za-z\0])")  # of a pattern, its holes \0: not one that goes on in a hole
MOST_KEPT = 4096
LONGEST = 600  # letters: a longer one holds what strangers wrote, and every pattern would walk through it
SURE_FROM = 12  # fixed letters of a pattern whose holes may hold anything: one with fewer would be met by chance
SHORT_BELOW = 10  # fixed letters: what stands in the one hole of such a one is a single word, save where its name says that it is more
TEXTS = ("why", "names", "bounds", "error", "words")


@dataclass(frozen=True, slots=True)
class Pattern:
    rank: int  # the most particular first: with the most fixed letters
    english: str
    other: str
    fixed: int  # letters


@dataclass(frozen=True, slots=True)
class Patterns:
    by_word: dict[str, list[Pattern]]  # under the rarest word of each, without which a sentence is another one
    wordless: list[Pattern]

    def that_may_know(self, text: str) -> list[Pattern]:
        found = [pattern for word in set(WORD.findall(text)) for pattern in self.by_word.get(word, ())]
        return sorted([*found, *self.wordless], key=lambda pattern: pattern.rank)


def told(text: str) -> str:
    """For every sentence of core that a page shows."""
    language = asked().language
    return text if language is Language.EN or not text or len(text) > LONGEST else _told(text, language)


@lru_cache(MOST_KEPT)
def _told(text: str, language: Language) -> str:
    near = NEAR.search(text)
    if near is not None:
        asks = one_told(near[1], language) or near[1]
        return f"{_told(text.replace(near[0], '', 1), language)} {asks}"
    whole = one_told(text, language)
    if whole is not None:
        return whole
    parts = [one_told(part, language) or after_a_name(part, language) or part for part in PARTS.split(text)]
    return loosely_told(text, language) or "".join(parts)


@lru_cache(MOST_KEPT)
def one_told(text: str, language: Language) -> str | None:
    for other, holes in met(text, language):
        return filled(other, holes, language)
    return None


def filled(other: str, holes: dict[str, str], language: Language) -> str:
    return HOLE.sub(lambda hole: one_told(holes[hole[1]], language) or holes[hole[1]], other)


def after_a_name(text: str, language: Language) -> str | None:
    """`gpu01: its driver does not answer`: who it is about stands before many a sentence."""
    name, colon, rest = text.partition(": ")
    words = one_told(rest, language)
    return None if words is None else f"{name}{colon}{words}"


def met(text: str, language: Language) -> Iterator[tuple[str, dict[str, str]]]:
    """The patterns that know it, with what stood in their holes; the most particular first."""
    for pattern in patterns(language).that_may_know(text):
        found = strict(pattern.english, pattern.fixed).fullmatch(text)
        if found is not None:
            yield pattern.other, found.groupdict()


def loosely_told(text: str, language: Language) -> str | None:
    """With anything in its holes, `; ` too, as in a command that somebody typed."""
    for pattern in patterns(language).that_may_know(text):
        if pattern.fixed >= SURE_FROM and (found := loose(pattern.english).fullmatch(text)) is not None:
            return filled(pattern.other, found.groupdict(), language)
    return None


@cache
def patterns(language: Language) -> Patterns:
    catalogue: dict[str, str] = getattr(spoken(language), "_catalog", {})
    known = [(key.removeprefix(CONTEXT), value) for key, value in catalogue.items() if isinstance(key, str) and key.startswith(CONTEXT)]
    known.sort(key=lambda pair: -len(HOLE.sub("", pair[0])))
    words = [WHOLE_WORD.findall(HOLE.sub("\0", english)) for english, _ in known]
    often = Counter(word for found in words for word in set(found))
    by_word, wordless = dict[str, list[Pattern]](), list[Pattern]()
    for rank, ((english, other), found) in enumerate(zip(known, words, strict=True)):
        rarest = by_word.setdefault(min(found, key=lambda word: often[word]), []) if found else wordless
        rarest.append(Pattern(rank, english, other, len(HOLE.sub("", english))))
    return Patterns(by_word, wordless)


@cache
def strict(english: str, fixed: int) -> re.Pattern[str]:
    text, holes = "(?:(?!; ).)", len(HOLE.findall(english))
    return re.compile(expression(english, text, "[^ ]" if fixed < SHORT_BELOW and holes == 1 else text), re.DOTALL)


@cache
def loose(english: str) -> re.Pattern[str]:
    return re.compile(expression(english, ".", "."), re.DOTALL)


def expression(english: str, text: str, word: str) -> str:
    """`text`, `word`: a letter of what may stand in a hole of the one and of the other kind."""
    names, written = set[str](), ""
    for place, piece in enumerate(HOLE.split(english)):
        if place % 2 == 0:
            written += re.escape(piece)
        else:
            written += f"(?P={piece})" if piece in names else f"(?P<{piece}>{text if piece in TEXTS else word}+?)"
            names.add(piece)
    return written
