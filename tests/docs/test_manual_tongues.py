"""The manual in two tongues: every English page has its Korean one, part for part, so that nobody reads less for reading Korean."""
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from pages import DOCS, FENCE, blocks, without_comments

KOREAN = ".ko.md"
PAGES = sorted(path for path in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")) if not path.name.endswith(KOREAN))
HEADING = re.compile(r"^(#+) ")
ENTRY = re.compile(r"^ *(?:[-*]|[0-9]+\.) ")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
WORDS_FOR_PEOPLE = "text"  # the blocks that are put into Korean too


@dataclass(frozen=True, slots=True)
class Size:
    """Of what stands below one heading, in things that a translation keeps."""

    level: int
    rows: int
    entries: int
    topics: int  # what paragraphs and entries are about is bold


def parts_of(text: str) -> list[tuple[str, Size]]:
    """Every heading with the size of what stands below it."""
    lines = list(outside_blocks(text))
    headings = [number for number, line in enumerate(lines) if HEADING.match(line)]
    return [(lines[begin], size_of(lines[begin:end])) for begin, end in pairwise([*headings, len(lines)])]


def outside_blocks(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        fence = FENCE.match(line)
        inside ^= bool(fence)
        if not inside and not fence:
            yield line


def size_of(part: list[str]) -> Size:
    return Size(
        level=part[0].index(" "),
        rows=sum(line.startswith("|") for line in part),
        entries=sum(bool(ENTRY.match(line)) for line in part),
        topics=sum(line.count("**") for line in part) // 2,
    )


def twin(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".md") + KOREAN)


def led_to(path: Path) -> set[Path]:
    return {(path.parent / target).resolve() for target in LINK.findall(path.read_text())}


def test_every_page_has_its_korean_one_and_every_korean_one_its_page():
    assert [path.name for path in PAGES if not twin(path).exists()] == []
    assert [path.name for path in DOCS.rglob(f"*{KOREAN}") if not path.with_name(path.name.removesuffix(KOREAN) + ".md").exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_headings_stand_in_the_same_order_and_below_each_is_as_much(path):
    ours, theirs = parts_of(path.read_text()), parts_of(twin(path).read_text())
    assert [size.level for _heading, size in theirs] == [size.level for _heading, size in ours], f"{[one for one, _size in ours]}\n{[one for one, _size in theirs]}"
    assert [(one, other) for one, other in zip(ours, theirs, strict=True) if one[1] != other[1]] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_are_the_same_to_the_letter_but_for_their_comments(path):
    """So that what is run of the English page is run of the Korean one."""
    ours, theirs = blocks(path), blocks(twin(path))
    assert [block.language for block in theirs] == [block.language for block in ours]
    for one, other in zip(ours, theirs, strict=True):
        if one.language != WORDS_FOR_PEOPLE:
            assert without_comments(other.lines) == without_comments(one.lines), f"{other} is not {one}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_korean_pages_lead_to_korean_ones(path):
    english = led_to(twin(path)) & {page.resolve() for page in PAGES}
    assert [page.name for page in english - {path.resolve()}] == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.parent == DOCS], ids=lambda path: path.name)
def test_a_page_and_its_twin_name_each_other(path):
    assert twin(path).resolve() in led_to(path)
    assert path.resolve() in led_to(twin(path))


def test_a_row_an_entry_or_a_topic_that_is_left_out_is_found():
    whole = "# Page\n**About** it.\n\n- one\n- two\n\n| a |\n|---|\n| b |\n\n```\n# no heading\n```\n## Next\n"
    assert [size for _heading, size in parts_of(whole)] == [Size(1, 3, 2, 1), Size(2, 0, 0, 0)]
