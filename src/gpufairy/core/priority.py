"""Priority: a number from -100 to 100, the highest first; three of them have names."""
from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput

HIGHEST = 100
CLASSES = {"high": 10, "normal": 0, "low": -10}


def parse_priority(given: str | int, what: str = "priority") -> int:
    text = str(given).strip().lower()
    if text in CLASSES:
        return CLASSES[text]
    if not text.removeprefix("-").removeprefix("+").isdecimal() or len(text) > 5 or abs(int(text)) > HIGHEST:
        raise BadInput(
            f"{what}: {shown(str(given))} is no priority", f"Write high, normal or low, or a whole number from -{HIGHEST} to {HIGHEST}."
        )
    return int(text)


def show_priority(priority: int) -> str:
    return next((name for name, number in CLASSES.items() if number == priority), str(priority))
