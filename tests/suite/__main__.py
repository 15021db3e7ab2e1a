"""`./test`, in its sizes: what each runs, and one closing block that says what was not tested, what is unsteady and where the time went.

    ./test                  all that needs no Kubernetes built from source
    ./test fast             what needs nothing but Python
    ./test all              everything, on every supported Python that is found
    ./test explore [--minutes N] [PATH …]     properties, with examples drawn at random
    ./test bench [NAME [--json]]              the benchmarks
    ./test PATH …           pytest with these arguments
"""
import os
import signal
import subprocess
import sys
from pathlib import Path

from .closing import close
from .explore import explore
from .runs import Run, run_alone, run_tests
from .setup import install_system_parts, other_pythons, start_kubernetes_build, start_style
from .stages import Stages

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-dev.lock"
FAST = ["-n", "3", "--dist", "loadfile", "-m", "not system and not slow and not quiet"]
# Test processes, for two cores: most of the time a test waits for what it started. A Kubernetes is as busy as one of them.
WITHOUT, WITH_KUBERNETES = "4", "3"
INTERRUPTED = 130


def main(words: list[str]) -> int:
    os.chdir(ROOT)
    size, rest = (words[0], words[1:]) if words else ("default", [])
    if size in ("default", "fast", "all") and rest:
        return refuse(f"./test {size} takes no more words, and was given: {' '.join(rest)}")
    if size == "fast":
        return test_fast()
    if size in ("default", "all"):
        return test_whole(kubernetes=size == "all")
    if size == "explore":
        return explore(rest)
    if size == "bench":
        return subprocess.call([sys.executable, "-m", "bench", *rest])
    if not size.startswith("-") and not Path(size.partition("::")[0]).exists():
        return refuse(f"there is no {size}: neither a size of the suite nor a file")
    return subprocess.call([sys.executable, "-m", "pytest", *words])


def refuse(why: str) -> int:
    print(f"test: {why}. There are ./test, ./test fast, ./test all, ./test explore, ./test bench and ./test PATH.", file=sys.stderr)
    return 2


def test_fast() -> int:
    stages = Stages("fast")
    style = start_style(stages, types=False)
    with stages.stage("tests"):
        run = run_tests("fast", FAST)
    return close(stages, [run], style_ok=style.is_fine())


def test_whole(*, kubernetes: bool) -> int:
    stages = Stages("all" if kubernetes else "default")
    build = start_kubernetes_build(stages) if kubernetes else None
    style = start_style(stages, types=True)
    with stages.stage("system parts"):
        install_system_parts()
    which = "not quiet" if kubernetes else "not quiet and not kubernetes and not pythons"
    with stages.stage("tests"):
        runs = [run_tests("tests", ["-n", WITH_KUBERNETES if kubernetes else WITHOUT, "--dist", "loadfile", "-m", which])]
    with stages.stage("what failed, once more and alone"):
        runs[0] = run_alone(runs[0])
    with stages.stage("tests that promise a time, alone on the machine"):
        runs.append(run_alone(run_tests("quiet", ["-m", "quiet", "tests/journeys", "tests/faults"])))
    if kubernetes:
        runs += [test_other_python(stages, number, python) for number, python in other_pythons().items()]
    if build is not None:
        build.is_fine()  # what could not be built is told by the tests that need it
    return close(stages, runs, style_ok=style.is_fine())


def test_other_python(stages: Stages, number: str, python: str) -> Run:
    """./test fast, in an environment of its own. Style and types are the same in all."""
    name = f"{ROOT}/.venv-test-{number}"
    with stages.stage(f"environment of Python {number}"):
        made = subprocess.run(["sh", "./.setup", name, str(LOCK)], env={**os.environ, "FAIRY_PYTHON": python}, check=False)
    if made.returncode != 0:
        return Run.broken(number, f"no environment could be made with {python}")
    with stages.stage(f"fast with Python {number}"):
        return run_tests(f"python{number}", FAST, executable=f"{name}/bin/python")


if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # started in the background of a script
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\ntest: interrupted. Nothing is left half made: run it again.", file=sys.stderr)
        sys.exit(INTERRUPTED)
