"""`python -m docs.generate`: writes docs/reference/ anew. A test fails while the pages are not what this makes."""
from pathlib import Path

from docs.generate import alerts, calls, commands, events, metrics
from docs.generate.korean import KOREAN
from docs.generate.words import Tongue

FOLDER = Path(__file__).parents[1] / "reference"
TONGUES = (Tongue("en", "", {}), Tongue("ko", ".ko", KOREAN))
PAGES = {"commands": commands.page, "api": calls.page, "metrics": metrics.page, "events": events.page, "alerts": alerts.page}


def made() -> dict[Path, str]:
    return {FOLDER / f"{name}{tongue.suffix}.md": make(tongue) for name, make in PAGES.items() for tongue in TONGUES}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in made().items():
        path.write_text(text)
