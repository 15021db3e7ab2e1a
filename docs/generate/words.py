"""Words of the generated pages, English and Korean. What the product itself says in Korean is taken from its own catalogue."""
from collections.abc import Callable
from dataclasses import dataclass

from gpufairy.web.asked import Language
from gpufairy.web.sentences import CONTEXT
from gpufairy.web.speech import spoken

Say = Callable[[str], str]

MADE = {
    "en": "This page is made from the code by `python -m docs.generate`.",
    "ko": "이 페이지는 코드에서 `python -m docs.generate`로 만들었습니다.",
}


@dataclass(frozen=True, slots=True)
class Tongue:
    lang: str
    suffix: str  # of the file
    korean: dict[str, str]

    def __call__(self, english: str) -> str:
        """What nobody has put into Korean stays English: better that than wrong."""
        return english if self.lang == "en" else self.korean.get(english) or catalogued(english)


def catalogued(english: str) -> str:
    """From the catalogue of the pages: as a word of a page, or as a sentence that core makes."""
    catalogue = spoken(Language.KO)
    found = catalogue.gettext(english)
    if found != english:
        return found
    sentence = catalogue.gettext(CONTEXT + english)
    return english if sentence == CONTEXT + english else sentence
