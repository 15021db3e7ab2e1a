"""`fairy up`: the command itself, and `-d`. What serves is loaded by whoever serves: the one who only waits for it starts at once."""
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import one_command
from gpufairy.cli.table import load_module
from gpufairy.core import failpoints
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.main.folders import data_folder, make_private
from gpufairy.main.install import DryRun, Install, Uninstall
from gpufairy.main.say import say
from gpufairy.main.up_options import ANNOUNCE, UpOptions

FOREGROUND = "gpufairy.main.foreground"


def _up(
    *,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Else ~/.local/share/gpufairy.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port of page and API. Else 8420, or the next that is free.")] = None,
    listen_on: Annotated[str | None, typer.Option("--listen", metavar="ADDRESS", help="Else 127.0.0.1: this machine alone.")] = None,
    ssh_port: Annotated[int | None, typer.Option("--ssh-port", help="Port of the SSH gateway. Else 8422, or the next free.")] = None,
    engine: Annotated[str, typer.Option("--engine", metavar="auto|process|docker|kubernetes", help="What runs the sessions.")] = "auto",
    simulate: Annotated[str | None, typer.Option("--simulate", metavar="GPUS", help="Pretend: 4xA100-40GB,1xH200,1xA100:mig")] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A fairy.toml with settings.")] = None,
    background: Annotated[bool, typer.Option("-d", "--detach", help="Return when it serves.")] = False,
    install: Install = False,
    uninstall: Uninstall = False,
    dry_run: DryRun = False,
) -> None:
    """Start the server here: queue, API, sessions. In the foreground, unless -d."""
    refuse_failpoints()
    keep_announcement_private()
    if background and not (install or uninstall):
        in_background()
        return
    foreground, options = load_module(FOREGROUND), UpOptions(data, port, listen_on, ssh_port, engine, simulate, config)
    if install or uninstall:
        foreground.as_service(options, remove=uninstall, dry_run=dry_run)
    else:
        foreground.serve_here(options)


up = one_command(_up, "fairy up")


def refuse_failpoints() -> None:
    """The variable does nothing here, and who set it thinks that it does."""
    if failpoints.VARIABLE in os.environ:
        found = f"{failpoints.VARIABLE} is set: places at which a server dies are for gpufairy's own tests"
        raise BadInput(found, f"Start it without: `unset {failpoints.VARIABLE}`. Tests start theirs by tests/faults/server.py.")


def keep_announcement_private() -> None:
    """Before anything is started: a session that inherited this end would keep `fairy up -d` waiting for as long as it runs."""
    if ANNOUNCE in os.environ:
        os.set_inheritable(int(os.environ[ANNOUNCE]), False)


def in_background() -> None:
    """The same command again, without -d, in a session of its own; its block comes through a pipe, so that no log has the sign-in link."""
    arguments = [word for word in sys.argv[1:] if word not in ("-d", "--detach")]
    folder = data_folder(named_data(arguments), dict(os.environ))
    make_private(folder)
    reading, writing = os.pipe()
    log_path = folder / "server.log"
    with open(os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        began_at = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "gpufairy", *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            pass_fds=(writing,), env={**os.environ, ANNOUNCE: str(writing)},
        )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    if text:
        say(text.replace("Ctrl-C stops the server", "`fairy down` stops the server"))
        return
    child.wait()
    said = [line for line in log_path.read_bytes()[began_at:].decode(errors="replace").splitlines() if line.strip()]
    wrong = next((line.removeprefix("fairy: ") for line in said if line.startswith("fairy: ")), said[-1] if said else "it said nothing")
    advice = next((line.strip().removeprefix("→ ") for line in said if line.strip().startswith("→")), "")
    raise Conflict(f"the server did not start: {wrong}", f"{advice} Its log is {log_path}.".strip())


def named_data(arguments: list[str]) -> Path | None:
    for at, word in enumerate(arguments):
        if word == "--data" and at + 1 < len(arguments):
            return Path(arguments[at + 1])
        if word.startswith("--data="):
            return Path(word.removeprefix("--data="))
    return None
