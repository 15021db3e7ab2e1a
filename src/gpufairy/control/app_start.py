"""Starting an app inside a session: found, set going in the background of the session, and looked after until it answers."""
import asyncio
import os
from dataclasses import dataclass

from gpufairy.core.apps import App
from gpufairy.core.errors import Conflict, EngineRefused
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.contract import Command, Engine, Stream

LOOK_EVERY_S = 0.05
SCRIPT_LIMIT_S = 20.0  # importing a module to see whether it is there may take seconds on a busy machine
MOST_SAID = 4096  # bytes

# Nothing from outside is spliced into these: what is looked for, and what is started, are arguments.
FIND = """\
PATH=$PATH:$HOME/.local/bin
for one do
  case $one in
    *:*) "${one%%:*}" -c "import ${one#*:}" >/dev/null 2>&1 && { printf '%s\\n' "$one"; exit 0; } ;;
    *) command -v -- "$one" 2>/dev/null && exit 0 ;;
  esac
done
exit 3
"""
# Left behind in the session's own background, not made a session of its own: so every engine ends it with the session.
START = """\
PATH=$PATH:$HOME/.local/bin
export PATH
cd -- "$HOME" || exit 4
log=.cache/gpufairy/$1/$2.log
mkdir -p ".cache/gpufairy/$1" "$3" 2>/dev/null || log=/dev/null
shift 3
(trap '' HUP; exec "$@") </dev/null >"$log" 2>&1 &
echo $!
"""
LAST_WORDS = """\
kill -0 "$1" 2>/dev/null && exit 0
tail -n 3 "$HOME/.cache/gpufairy/$2/$3.log" 2>/dev/null
exit 3
"""


@dataclass(frozen=True, slots=True)
class Inside:
    """Where an app is to run: the session, its shell, and the port on its loopback."""

    workload: WorkloadId
    session: str  # its name
    shell: str
    port: int


async def answers(engine: Engine, inside: Inside) -> bool:
    try:
        link = await engine.connect(inside.workload, inside.port)
    except EngineRefused:
        return False
    link.close()
    return True


async def start(engine: Engine, inside: Inside, app: App) -> int:
    """Its process, as the session counts it. Raises Conflict: there is no such program inside."""
    code, found = await ran(engine, inside, FIND, *app.programs)
    if code != 0 or not found:
        looked = ", ".join(program.replace(":", " -m ") for program in app.programs)
        raise Conflict(f"{app.title} is not in session {inside.session}: looked for {looked}", app.to_get)
    code, pid = await ran(engine, inside, START, inside.session, app.name, app.folder, *app.argv(found, inside.port), env=app.env)
    if code != 0 or not pid.isdecimal():
        raise Conflict(f"{app.title} could not be started in session {inside.session}: its home cannot be entered", "See `fairy ssh`.")
    return int(pid)


async def came_up(engine: Engine, inside: Inside, app: App, pid: int, wait_s: float) -> bool:
    """Whether it answers by then. Raises Conflict: it has ended instead."""
    until = asyncio.get_running_loop().time() + wait_s
    while not await answers(engine, inside):
        if asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            continue
        if (words := await last_words(engine, inside, app, pid)) is not None:
            log = f"~/.cache/gpufairy/{inside.session}/{app.name}.log"
            raise Conflict(f"{app.title} ended in session {inside.session}: {words or 'it said nothing'}", f"Its log inside is {log}.")
        return False
    return True


async def last_words(engine: Engine, inside: Inside, app: App, pid: int) -> str | None:
    """None: it still runs."""
    code, said = await ran(engine, inside, LAST_WORDS, str(pid), inside.session, app.name)
    return None if code == 0 else said


async def ran(engine: Engine, inside: Inside, script: str, *arguments: str, env: tuple[tuple[str, str], ...] = ()) -> tuple[int, str]:
    """A script's exit code, and what it said."""
    stream = await engine.open(inside.workload, Command((inside.shell, "-c", script, "fairy", *arguments), env=env))
    try:
        async with asyncio.timeout(SCRIPT_LIMIT_S):
            said = await all_said(stream)
            return await stream.wait(), said.decode(errors="replace").strip()
    except TimeoutError:
        raise Conflict(f"session {inside.session} is too busy to start anything in it", "Try again in a minute.") from None
    finally:
        await stream.close()


async def all_said(stream: Stream) -> bytes:
    loop, said, ended = asyncio.get_running_loop(), bytearray(), asyncio.Event()
    os.set_blocking(stream.stdout, False)

    def readable() -> None:
        try:
            chunk = os.read(stream.stdout, MOST_SAID)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        said.extend(chunk)
        if not chunk or len(said) >= MOST_SAID:
            ended.set()

    loop.add_reader(stream.stdout, readable)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(stream.stdout)
    return bytes(said)
