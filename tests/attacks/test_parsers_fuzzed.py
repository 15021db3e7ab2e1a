"""Every parser of strangers' words, fuzzed from its corpus for a bounded time: it answers, or refuses in words, and soon.

More at one go: `FAIRY_FUZZ_EXAMPLES=100000 ./test tests/attacks/test_parsers_fuzzed.py`.
"""
import contextlib
import os
import random
import time

import pytest
from fuzzed import CORPUS, PARSERS, archive, seeds_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufairy.core.errors import FairyError

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("FAIRY_FUZZ_EXAMPLES", "150"))
LONGEST_S = 5.0  # for one input, on a busy machine: what takes longer would hold up the server
LARGE = 256 * 2**10
DEEP = 50_000
NASTY = (
    b"[" * DEEP, b'{"a":' * DEEP, b"9" * 6000, b'{"a": ' + b"9" * 6000 + b"}", b"-" * 9999, b"\x00" * 9999, b"\xff\xfe" * 9999, b"a" * LARGE, b"\n" * LARGE,
    b"(" * 9999, b"{{" * 9999, b"&a [*a,*a,*a]", b"1e999999", b'{"at": "9999-12-31T23:59:59-23:59"}', "٣".encode() * 50, "\u202e\u200b\ufeff".encode() * 99,
    b"%s%n%x" * 99, b"../" * 999, b"/" * 9999, b"a:" * 9999, b"null", b"[]", b"{}", b"NaN", b"Infinity", b'"', b"\r\n\r\n", b"\x1b]0;x\x07",
)  # fmt: skip


@pytest.mark.parametrize("name", PARSERS)
def test_what_once_was_seen_or_broke_something_is_taken(name):
    seeds = seeds_of(name)
    assert seeds, f"corpus/{name} is empty"
    for data in (*seeds, *NASTY):
        within_bounds(name, data)


@pytest.mark.parametrize("name", PARSERS)
def test_whatever_comes_is_answered_or_refused_in_words_and_soon(name):
    seeds = seeds_of(name)
    mutated = st.builds(changed, st.sampled_from(seeds), st.randoms(use_true_random=False), st.sampled_from(NASTY))

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES <= 150, suppress_health_check=list(HealthCheck))
    @given(st.one_of(mutated, st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))))
    def fuzz(data: bytes) -> None:
        within_bounds(name, data)

    fuzz()


def within_bounds(name: str, data: bytes) -> None:
    began = time.monotonic()
    PARSERS[name].take(data)
    assert time.monotonic() - began < LONGEST_S, f"{name} took {time.monotonic() - began:.1f} s for {len(data)} bytes"


def changed(seed: bytes, chance: random.Random, nasty: bytes) -> bytes:
    """Cut, doubled, with some bytes others, or with something nasty in the middle of it."""
    made = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        at, end = sorted(chance.randint(0, len(made)) for _ in range(2))
        match chance.randrange(6):
            case 0:
                del made[at : at + min(end - at, 20)]
            case 1:
                made[at:at] = made[at:end][:500]
            case 2:
                made[at:at] = nasty[:5000]
            case 3:
                made[at : at + 3] = chance.randbytes(chance.randint(0, 4))
            case 4:
                made = made[:end]
            case 5:
                made[at : at + 1] = chance.choice((b"\0", b"\n", b"\t", b'"', b"'", b"-", b"9" * 5000, b"null", b"[", b"\xff", b":", b"1e999", b"true"))
    return bytes(made)


@pytest.mark.slow
def test_an_archive_that_was_tampered_with_is_refused_in_words_and_writes_nothing_else(tmp_path):
    take_out, chance, seeds = archive(tmp_path), random.Random(11), seeds_of("archive")
    (tmp_path / "canary").write_text("untouched")
    for number in range(min(EXAMPLES * 2, 2000)):
        data = changed(seeds[number % len(seeds)], chance, NASTY[number % len(NASTY)])
        began = time.monotonic()
        with contextlib.suppress(FairyError):
            take_out(data)
        assert time.monotonic() - began < LONGEST_S
    assert (tmp_path / "canary").read_text() == "untouched"
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("out")} == {"archive", "canary"}


def test_every_corpus_is_of_a_parser():
    assert {folder.name for folder in CORPUS.iterdir()} == {*PARSERS, "archive"}
