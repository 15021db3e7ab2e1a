"""Speech: words of the pages in the language of whoever asks. English is what the source says; other tongues have a catalogue each.

Sentences that core made ("waits its turn: 3 ahead of it") are turned into another tongue by their patterns (sentences.py).
"""
import gettext
from functools import cache
from pathlib import Path

from gpufairy.web.asked import Language, asked

CATALOGUES = Path(__file__).parent / "catalogues"


def _(text: str) -> str:
    """In the language of whoever asked."""
    return spoken(asked().language).gettext(text)


def ngettext(one: str, many: str, number: int) -> str:
    return spoken(asked().language).ngettext(one, many, number)


@cache
def spoken(language: Language) -> gettext.NullTranslations:
    file = CATALOGUES / f"{language}.mo"
    if language is Language.EN:
        return gettext.NullTranslations()
    with file.open("rb") as stream:
        return gettext.GNUTranslations(stream)
