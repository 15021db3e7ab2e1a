"""What a page says that a command prints, compared loosely: figures, times, ids and names of made-up sessions are anybody's."""
import re

ANY = re.compile(
    r"(?P<made>\b[a-z]+-(?:magpie|otter)\b)"
    r"|(?P<uuid>(?:GPU|MIG)-[0-9a-f]{4}…)|(?P<key>SHA256:\S+)|(?P<id>\b[0-9a-f]{8,}\b)|(?P<secret>fairyt?_…)|(?P<more>…)"
    r"|(?P<day>\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d+ [A-Z][a-z]{2}\b|\b\d+ (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b)"
    r"|(?P<moment>\b\d{4}-\d\d-\d\d \d\d:\d\d\b)"
    r"|(?P<span>\b\d\d:\d\d-\d\d:\d\d\b)"
    r"|(?P<clock>\b\d\d:\d\d\b(?!:))"
    r"|(?P<time>\d[\d:.,TZ-]*(?: (?:s|min|h|d)\b)?(?: \d+ (?:min|h|s)\b)?)|(?P<space>\s+)"
)
PATTERNS = {
    "made": r"[a-z]+-[a-z]+", "uuid": r"(?:GPU|MIG)-[\w-]+", "key": r"SHA256:\S+", "id": r"[0-9a-f]{6,}", "secret": r"fairyt?_[\w-]+", "more": ".*", "day": r"[\w ]+?",
    "span": r"\d\d:\d\d(?:-\d\d:\d\d| to [\w ]+? \d\d:\d\d)",  # over midnight with its day
    "moment": r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d", "clock": r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d(?::\d\d)?",  # tomorrow's with its day
    "time": r"[\d:.,TZ-]+(?: (?:s|min|h|d)\b)?(?: \d+ (?:min|h|s)\b)?", "space": r"\s+",
}  # fmt: skip


def pattern(line: str) -> re.Pattern[str]:
    parts, at = [], 0
    for found in ANY.finditer(line.strip()):
        parts += [re.escape(line.strip()[at:found.start()]), PATTERNS[found.lastgroup or "space"]]
        at = found.end()
    return re.compile("".join([*parts, re.escape(line.strip()[at:])]))


def missing(shown: tuple[str, ...], printed: str) -> list[str]:
    """Lines of the page that nothing printed looks like. Others may stand between, and stdout and stderr come in any order."""
    lines = [line.strip() for line in printed.replace("\r", "").splitlines()]
    return [line for line in shown if line.strip() and not any(pattern(line).fullmatch(one) for one in lines)]
