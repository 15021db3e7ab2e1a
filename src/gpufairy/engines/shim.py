"""The shim: the small shell that is a workload's first process. It claims the run, runs the command, writes the exit code.

Nothing from outside is ever spliced into its text: folders and the command are arguments, the rest is environment.
"""
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

SHELL = "/bin/sh"
WAIT_FOR_EVER = ("sleep", "2147483647")  # seconds, 68 years: what an interactive session without a command does

# Builtins alone until the command itself, so that one launch costs two processes and no look at PATH.
# `set -C` opens the claim with O_EXCL: whoever creates it, this shim or a server that gave it up, decides alone whether anything runs.
# A signal that comes before the command has begun is remembered; later ones are the command's, and the shim outlives them.
# The traps are not '': a caught signal is set back to its default in the command, an ignored one would stay ignored.
# The command runs by `exec` in a subshell, so that a command called `exit` is looked for on PATH and not obeyed here.
SCRIPT = """\
cd -- "$1" || exit 0
read -r boot < /proc/sys/kernel/random/boot_id
read -r stat < /proc/$$/stat
set -C
{ printf '%s\\n%s\\n' "$boot" "$stat" > claim; } 2>/dev/null || exit 0
set +C
trap told=1 TERM INT HUP
ulimit -Sn "$3" 2>/dev/null
run=$1 work=$2
shift 3
if ! cd -- "$work" 2>/dev/null; then
  printf 'fairy: there is no work folder %s on this machine, or it may not be entered\\n' "$work"
  code=126
elif ! command -v -- "$1" >/dev/null 2>&1; then
  printf 'fairy: there is no command %s in the session\\n' "$1"
  code=127
elif [ -n "${told-}" ]; then
  code=143
else
  (exec "$@")
  code=$?
fi
printf '%s\\n' "$code" > "$run/exit"
kill -9 0
"""

# For a command beside the session's own one: its folder, then itself.
BESIDE = """\
cd -- "$1" 2>/dev/null
ulimit -Sn "$2" 2>/dev/null
shift 2
exec "$@"
"""

# What we ignore our children would ignore too, and a shell cannot trap: Python ignores the first two, a server started in the
# background of a script the next two, one started by nohup the last.
SET_BACK = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def shim_argv(run: Path, work: str, most_files: int, command: tuple[str, ...]) -> list[str]:
    return ["sh", "-c", SCRIPT, "fairy", str(run), work, str(most_files), *command]


def beside_argv(work: str, most_files: int, command: tuple[str, ...]) -> list[str]:
    return ["sh", "-c", BESIDE, "fairy", work, str(most_files), *command]


def spawn(argv: list[str], env: Mapping[str, str], *, stdin: int | str, stdout: int, stderr: int) -> int:
    """Start it as the leader of its own session and say its PID. A `stdin` that is a path is a terminal, and serves as all three."""
    if isinstance(stdin, str):
        # Opened by a leader without a terminal, it becomes the controlling one: that is what makes Ctrl-C work.
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [(os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDWR, 0)]
        stdout = stderr = 0
    else:
        actions = [(os.POSIX_SPAWN_DUP2, stdin, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    return os.posix_spawn(SHELL, argv, dict(env), file_actions=actions, setsid=True, setsigmask=(), setsigdef=SET_BACK)


@contextlib.contextmanager
def pinned(cpus: frozenset[int] | None) -> Iterator[None]:
    """Run this thread, and so what it spawns, on these CPUs. Set before the spawn: set after, a command was seen to be forked first."""
    before = os.sched_getaffinity(0) if cpus else set()
    if not cpus or not _moved_to(cpus):
        yield
        return
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _moved_to(cpus: frozenset[int]) -> bool:
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:  # a sandbox may forbid it, a CPU may be offline: the session then runs where it likes
        return False
    return True
