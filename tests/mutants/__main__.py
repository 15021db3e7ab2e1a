"""python -m tests.mutants [--list] [--only MODULE] [--seed N] [--most N]: do tests notice?

Says by which test each mutant was killed, and ends with a table by module; with 1 where fewer than 95 % were.
"""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mutants.operators import Mutant, find_mutants
from tests.mutants.rounds import OPTIONS, Project, Round

ROOT = Path(__file__).parents[2]
# Of each subject its modules, and the tests whose business they are: what only a test of something else would
# notice, nobody would understand.
SUBJECTS = {
    "scheduling": (
        "core/plan core/fit core/room core/preempt core/booking core/queue core/turn core/promise core/fair_tree",
        "core/test_plan core/test_plan_words core/test_fit core/test_fit_edges core/test_kinds core/test_room"
        " core/test_preempt core/test_preempt_edges core/test_booking core/test_calendar core/test_queue core/test_turn"
        " core/test_promise core/test_promise_gang core/test_fair_tree core/test_gang core/test_sharing core/test_floor"
        " core/test_reclaim core/test_quota core/test_helps core/test_over_share core/test_starvation",
    ),
    "quota": (
        "core/quota core/quota_check core/quota_rules",
        "core/test_quota core/test_quota_check core/test_kinds control/test_teams_quotas",
    ),
    "lifecycle": (
        "core/lifecycle core/steps core/reconcile",
        "core/test_lifecycle core/test_steps core/test_reconcile core/test_reconcile_edges core/test_reclaim"
        " control/test_loops control/test_gangs",
    ),
    "reclaim": (
        "core/reclaim core/idle core/active",
        "core/test_reclaim core/test_reclaim_edges core/test_idle core/test_active control/test_reclaim_loop"
        " control/test_reclaim_settings",
    ),
    "rights": (
        "api/policy api/door control/registry core/image",
        "control/test_rights_table control/test_guard control/test_registry control/test_registry_rights core/test_image",
    ),
    "MIG": (
        "core/mig core/mig_could core/mig_cut core/mig_demand core/mig_layout core/mig_offer core/mig_plain"
        " core/mig_plan core/mig_recent core/mig_seat core/mig_worth",
        "core/test_mig_could core/test_mig_demand core/test_mig_layout core/test_mig_offer core/test_mig_plan"
        " core/test_mig_seat core/test_mig_worth core/test_fit control/test_cutter",
    ),
}
LEAST_KILLED = 0.95
KILLED, EQUIVALENT, SURVIVED = "killed", "equivalent", "survived"


def main(words: list[str]) -> int:
    asked = read_words(words)
    equivalent = read_equivalent(asked.root / "tests" / "mutants" / "equivalent.txt")
    modules, tests = (
        modules_of(asked.only or list(SUBJECTS)),
        asked.tests or tests_of(asked.only or list(SUBJECTS)),
    )
    present = tuple(path for path in tests if (asked.root / path).exists())
    project = Project(asked.root, asked.root / "src" / asked.package, asked.package, present)
    if asked.list:
        for mutant in choose(find_all(project, modules), asked):
            print(told(mutant))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # else the fork and the copy would outlast us
    with tempfile.TemporaryDirectory(prefix="fairy-mutants-") as folder:
        copy = copy_of(project, Path(folder))
        found = find_all(copy, modules)
        check_equivalent(equivalent, found)
        return run_round(copy, choose(found, asked), equivalent)


def modules_of(names: Sequence[str]) -> list[str]:
    return [
        module for name in names for module in (SUBJECTS[name][0].split() if name in SUBJECTS else [name])
    ]


def tests_of(names: Sequence[str]) -> list[str]:
    """Of the subjects, and of those that the modules belong to."""
    meant = [
        tests for subject, (modules, tests) in SUBJECTS.items() if {subject, *modules.split()} & set(names)
    ]
    return list(dict.fromkeys(f"tests/{name}.py" for tests in meant for name in tests.split()))


def read_words(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say which would be tried, and try none")
    parser.add_argument(
        "--only", action="append", metavar="MODULE", help="as core/fit, or a subject as quota; again for more"
    )
    parser.add_argument("--seed", type=int, default=1, help="which of all mutants are drawn")
    parser.add_argument("--most", type=int, default=300, help="how many are drawn; 0: all there are")
    parser.add_argument("--again", type=Path, metavar="FILE", help="those that survived by this output")
    parser.add_argument("--root", type=Path, default=ROOT, help="of another repository")
    parser.add_argument("--package", default="gpufairy")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="else those of the subject")
    return parser.parse_args(words)


def copy_of(project: Project, folder: Path) -> Project:
    """Sources and tests as they are now: what changes in the working tree meanwhile is of no matter."""
    for name in ("src", "tests"):
        shutil.copytree(project.root / name, folder / name, symlinks=True)
    for path in project.root.iterdir():
        if path.name not in ("src", "tests", ".hypothesis"):
            (folder / path.name).symlink_to(path)
    return replace(project, root=folder, sources=folder / "src" / project.package)


def told(mutant: Mutant) -> str:
    return f"{mutant.module}:{mutant.lineno} {mutant.where}: {mutant.change}"


def find_all(project: Project, modules: Sequence[str]) -> list[Mutant]:
    found = []
    for name in modules:
        file = project.sources / f"{name}.py"
        if not file.is_file():
            sys.exit(f"no module {name}. Write it as core/fit.")
        found += find_mutants(file, f"{name}.py")
    return found


def choose(found: Sequence[Mutant], asked: argparse.Namespace) -> list[Mutant]:
    """In the order in which they were drawn: the first hundred of a longer round are a round of a hundred."""
    drawn = list(found)
    random.Random(asked.seed).shuffle(drawn)
    if asked.again is not None:
        survived = re.findall(rf"^{SURVIVED} (\S+?):\d+ (.*)$", asked.again.read_text(), re.MULTILINE)
        return [one for one in drawn if (one.module, f"{one.where}: {one.change}") in survived]
    return drawn[: asked.most or None]


def check_equivalent(equivalent: dict[tuple[str, ...], str], found: Sequence[Mutant]) -> None:
    """What was said of a line that has changed since is to be thought over again."""
    looked_at, there = {mutant.module for mutant in found}, {mutant.name for mutant in found}
    for name in equivalent:
        if name[0] in looked_at and name not in there:
            sys.exit(f"equivalent.txt: {' '.join(name)!r} is no mutant any more. Mend or remove its block.")


def read_equivalent(file: Path) -> dict[tuple[str, ...], str]:
    """Blocks of four lines: the file and function, the line, its change, and why nothing can notice it."""
    if not file.is_file():
        return {}
    text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    blocks = [block.strip().splitlines() for block in text.split("\n\n") if block.strip()]
    for block in blocks:
        if len(block) != 4:
            sys.exit(f"{file}: found {len(block)} lines where four belong together: {block[0]!r}")
    named = ((head.partition(" "), line.strip(), change.strip(), why) for head, line, change, why in blocks)
    return {(module, where, line, change): why for (module, _, where), line, change, why in named}


def run_round(project: Project, mutants: list[Mutant], equivalent: dict[tuple[str, ...], str]) -> int:
    counts: dict[str, Counter[str]] = {}
    tried = [mutant for mutant in mutants if mutant.name not in equivalent]
    for mutant in mutants:
        counts.setdefault(mutant.module, Counter())[EQUIVALENT] += mutant.name in equivalent
    out = os.fdopen(os.dup(1), "w", buffering=1)
    began = time.monotonic()

    def tell(mutant: Mutant, noticed: str) -> None:
        verdict = KILLED if noticed else SURVIVED
        counts[mutant.module][verdict] += 1
        print(f"{verdict} {told(mutant)}", file=out)
        print(f"    by {noticed}" if noticed else f"    {mutant.line}", file=out)

    taken = Round(project, tried, tell)
    with open(project.root / "pytest.log", "w") as log:
        status = run_pytest(project, taken, log.fileno())
    if status:
        print((project.root / "pytest.log").read_text()[-4000:], file=out)
        return 2
    for test in taken.calls.failed:
        print(f"left out, since it fails without any mutant: {test}", file=out)
    print(f"\nin {time.monotonic() - began:.0f} s", file=out)
    return report(counts, out)


def run_pytest(project: Project, taken: Round, log: int) -> int:
    """What pytest and the tests print goes to the log."""
    os.chdir(project.root)
    options = [*OPTIONS, "--capture=no", f"--basetemp={project.root / 'pytest'}", f"--rootdir={project.root}"]
    kept = os.dup(1), os.dup(2)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        return int(pytest.main([*options, *project.tests], plugins=[taken]))
    finally:
        sys.stdout.flush()
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)


def report(counts: dict[str, Counter[str]], out) -> int:
    total: Counter[str] = Counter()
    for module in sorted(counts):
        total += counts[module]
        print(f"{module:24} " + row(counts[module]), file=out)
    print(f"{'all':24} " + row(total), file=out)
    tried = total[KILLED] + total[SURVIVED]
    return 0 if total[KILLED] >= LEAST_KILLED * tried else 1


def row(count: Counter[str]) -> str:
    tried = count[KILLED] + count[SURVIVED]
    part = f"{count[KILLED] / tried:.1%}" if tried else "-"
    verdicts = (f"{verdict} {count[verdict]}" for verdict in (KILLED, SURVIVED, EQUIVALENT))
    return f"{part:>6}  " + ", ".join(verdicts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
