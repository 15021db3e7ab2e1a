"""The album: pictures that the browser tests take of what they saw, kept for whoever wants to look. Nothing is compared with them."""
from pathlib import Path

ALBUM = Path(__file__).parents[1] / "build" / "screenshots"


def place_of(name: str) -> Path:
    ALBUM.mkdir(parents=True, exist_ok=True)
    return ALBUM / f"{name}.png"


def taken_since(moment: float) -> int:
    """How many; `moment` in seconds since 1970."""
    return sum(picture.stat().st_mtime >= moment for picture in ALBUM.glob("*.png"))
