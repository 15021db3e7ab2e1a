"""`./test explore`: properties with examples drawn at random, over and over, until the time is up or one fails.

What it finds is printed as an `@example` to be pasted above the property: from then on every run tries it.
"""
import argparse
import itertools
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

FIRST, MOST = 100, 20_000  # examples of each property in the first round, and in the longest
# What Hypothesis prints of a case: the test's name, its arguments on lines of their own, and a closing bracket.
FOUND = re.compile(r"^(?P<margin>E? *)(?:Falsifying|Failing)[a-z ]*: (?P<test>\w+)\($")


def explore(words: list[str]) -> int:
    asked = read(words)
    until, examples, rounds = time.monotonic() + asked.minutes * 60, FIRST, 0
    while time.monotonic() < until:
        seed = random.SystemRandom().randrange(2**32)
        print(f"\n== round {rounds + 1}: {examples} examples of each property, seed {seed}", file=sys.stderr, flush=True)
        done = run_round(asked.path, seed, examples, until - time.monotonic())
        if done is None:
            break
        rounds += 1
        if done.returncode not in (0, 5):
            return tell(done.stdout, seed)
        if done.returncode == 5:
            print(f"test: no property in {' '.join(asked.path)}.", file=sys.stderr)
            return 2
        examples = min(MOST, examples * 3)
    print(f"\nnothing found in {asked.minutes:g} min and {rounds} whole rounds.", file=sys.stderr)
    return 0


def read(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./test explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("path", nargs="*", default=["tests"])
    asked = parser.parse_args(words)
    for path in asked.path:
        if not Path(path.partition("::")[0]).exists():
            parser.error(f"there is no {path}")
    return asked


def run_round(path: list[str], seed: int, examples: int, left_s: float) -> subprocess.CompletedProcess[str] | None:
    """None: the time was up."""
    command = [sys.executable, "-m", "pytest", "-x", "-n", "2", "--dist", "load", "--timeout", "0", f"--hypothesis-seed={seed}", *path]
    try:
        return subprocess.run(
            command, env={**os.environ, "FAIRY_TEST_EXPLORE": str(examples)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=max(1.0, left_s), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def tell(printed: str, seed: int) -> int:
    print(printed[-6000:], file=sys.stderr)
    for test, case in cases_in(printed):
        print(f"\nto be pasted above {test}:\n{case}")
    print(f"\nfound with seed {seed}.", file=sys.stderr)
    return 1


def cases_in(printed: str) -> list[tuple[str, str]]:
    """Each test that failed, and its case as an @example."""
    cases, lines = [], iter(printed.splitlines())
    for line in lines:
        if found := FOUND.match(line):
            inside = itertools.takewhile(lambda one: one != ")", (one.removeprefix(found["margin"]) for one in lines))
            cases.append((found["test"], "\n".join(("@example(", *inside, ")"))))
    return cases
