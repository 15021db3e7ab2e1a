"""The colours of the pages, for a terminal: one set of words for light and dark, and for each user the hue that the pages give them."""
from functools import lru_cache
from zlib import crc32

from rich.text import Text
from textual.color import Color
from textual.theme import Theme

from gpufairy.tui.cells import Piece

DARK = {
    "bg": "#151514", "card": "#1e1e1c", "line": "#33322f", "ink": "#ecebe6", "soft": "#a3a099", "accent": "#9ea2ff",
    "run": "#58c28a", "wait": "#e0a33e", "start": "#7db2ee", "bad": "#f2867e", "idle": "#4c4a45", "sim": "#c99bea", "work": "#3f7f5f",
}  # fmt: skip
LIGHT = {
    "bg": "#f7f7f5", "card": "#ffffff", "line": "#e4e3df", "ink": "#1d1d1b", "soft": "#66645f", "accent": "#4b4fc4",
    "run": "#1a7f4e", "wait": "#9a6400", "start": "#2563a8", "bad": "#b3261e", "idle": "#b9b6ae", "sim": "#7a3fa0", "work": "#6fae8e",
}  # fmt: skip
# As the pages have them, in their order. None is violet: that is for what is simulated.
HUES = (
    "#3f7fd1", "#c1652b", "#2f9a76", "#b8497f", "#857d1c", "#2b8fa3", "#96683f", "#5560c9", "#c24f4f", "#5f9130", "#b5871b", "#64748b",
)  # fmt: skip
HUE_IN_TEXT = 0.65  # the rest is ink, else some hues are too faint to read


def hue_of(user: str) -> str:
    """A user keeps one hue everywhere, so it hangs on nothing but the name."""
    return f"hue-{crc32(user.encode()) % len(HUES)}"


@lru_cache(maxsize=1024)
def style_of(words: str, dark: bool) -> str:
    """A style that Rich knows: `bold run` is `bold #58c28a` in the dark."""
    return " ".join(_colour_of(word, dark) for word in words.split())


def _colour_of(word: str, dark: bool) -> str:
    tokens = DARK if dark else LIGHT
    if word.startswith("hue-"):
        ink = Color.parse(tokens["ink"])
        return ink.blend(Color.parse(HUES[int(word.removeprefix("hue-"))]), HUE_IN_TEXT).hex
    return tokens.get(word, word)


def painted(pieces: tuple[Piece, ...], dark: bool, *, right: bool = False) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis", end="", justify="right" if right else "left")
    for words, style in pieces:
        text.append(words, style_of(style, dark) if style else None)
    return text


def theme(dark: bool) -> Theme:
    tokens = DARK if dark else LIGHT
    return Theme(
        name="fairy-dark" if dark else "fairy-light", dark=dark,
        primary=tokens["accent"], secondary=tokens["start"], accent=tokens["accent"],
        warning=tokens["wait"], error=tokens["bad"], success=tokens["run"], foreground=tokens["ink"], background=tokens["bg"],
        surface=tokens["bg"], panel=tokens["card"],
        variables={
            "soft": tokens["soft"], "line": tokens["line"], "footer-key-foreground": tokens["accent"], "footer-background": tokens["card"],
            "block-cursor-background": tokens["line"], "block-cursor-foreground": tokens["ink"], "block-cursor-text-style": "none",
            "block-cursor-blurred-background": tokens["card"], "block-cursor-blurred-foreground": tokens["ink"],
        },
    )  # fmt: skip
