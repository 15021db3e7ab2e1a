"""`fairy up`: decides, starts the server, signs the person who started it in, and says what there is."""
import asyncio
import gc
import getpass
import logging
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.api.context import Context
from gpufairy.cli.options import one_command
from gpufairy.client import connection, local_server
from gpufairy.control.house import House
from gpufairy.core import failpoints
from gpufairy.core.errors import BadInput, Conflict, NotSignedIn
from gpufairy.core.unit_file import SERVER
from gpufairy.main.banner import banner, say
from gpufairy.main.folders import data_folder
from gpufairy.main.install import DryRun, Install, Machine, Uninstall, given, server_service
from gpufairy.main.install import install as install_service
from gpufairy.main.install import uninstall as uninstall_service
from gpufairy.main.machine import chosen_engine, this_node
from gpufairy.main.ports import listen
from gpufairy.main.serve import Setup, serve
from gpufairy.wire.config import load_config

ANNOUNCE = "FAIRY_ANNOUNCE_FD"  # where a server in the background hands its block to the one who started it


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
    if install or uninstall:
        options = given(port=port, listen=listen_on, ssh_port=ssh_port, simulate=simulate)
        as_service(engine, data, config, options, remove=uninstall, dry_run=dry_run)
        return
    if background:
        in_background()
        return
    settings = load_config(config)
    settings.to_policy()
    settings.reclaim.to_ladders()
    settings.limits.check()
    settings.oidc.to_settings()
    chosen = chosen_engine(engine, settings)
    folder = data_folder(data, dict(os.environ))
    node = this_node(settings, simulate, chosen)
    make_private(folder)
    host = listen_on or settings.server.listen
    listener = listen(host, settings.server.port if port is None else port)
    url = settings.server.url or f"http://{reachable(host)}:{listener.getsockname()[1]}"
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    called = os.environ.get("FAIRY_COMMAND", "fairy")
    ssh_port = settings.ssh.port if ssh_port is None else ssh_port
    setup = Setup(folder, listener, url, node, settings, write_fairy_command(folder), admin_name(), called, chosen, host, ssh_port, config)
    asyncio.run(serve(setup, lambda context: ready(setup, context)))


up = one_command(_up, "fairy up")


def as_service(engine: str, data: Path | None, config: Path | None, options: list[str], *, remove: bool, dry_run: bool) -> None:
    if remove:
        uninstall_service(SERVER, Machine(), dry_run=dry_run)
        return
    chosen = chosen_engine(engine, load_config(config))
    install_service(server_service(chosen, data, config, options), Machine(), dry_run=dry_run)


def refuse_failpoints() -> None:
    """The variable does nothing here, and who set it thinks that it does."""
    if failpoints.VARIABLE in os.environ:
        found = f"{failpoints.VARIABLE} is set: places at which a server dies are for gpufairy's own tests"
        raise BadInput(found, f"Start it without: `unset {failpoints.VARIABLE}`. Tests start theirs by tests/faults/server.py.")


def keep_announcement_private() -> None:
    """Before anything is started: a session that inherited this end would keep `fairy up -d` waiting for as long as it runs."""
    if ANNOUNCE in os.environ:
        os.set_inheritable(int(os.environ[ANNOUNCE]), False)


async def ready(setup: Setup, context: Context) -> None:
    user = setup.admin
    await sign_in(setup, context.house)
    noted = local_server.LocalServer(os.getpid(), local_server.birth_of(os.getpid()), setup.url, str(setup.data), own_address(setup))
    local_server.write_down(noted, os.environ)
    sign_in_link = f"{setup.url}/signin?code={context.links.make(user)}"
    text = banner(setup, context.house.engine, user, sign_in_link, context.ssh.port if context.ssh else None)
    announce_to = os.environ.pop(ANNOUNCE, None)
    if announce_to is None:
        say(text)
    else:
        with os.fdopen(int(announce_to), "w") as pipe:
            pipe.write(text)
    gc.collect()
    gc.freeze()  # what is here now stays for good: the collector need not walk it again and again


async def sign_in(setup: Setup, house: House) -> None:
    """The person who starts the server is signed in on the command line: with the token they have, or a new one."""
    registry, name = house.registry, setup.admin
    try:
        stored = connection.load(os.environ)
        if stored is not None and registry.caller(stored.token).user.name == name:
            keep_sign_in(setup, stored.token)
            return
    except (NotSignedIn, BadInput):
        pass
    _, text = await registry.create_token(name, f"fairy up on {setup.node.name}", "full", None)
    keep_sign_in(setup, text)


def keep_sign_in(setup: Setup, token: str) -> None:
    """For the address that people use, and for FAIRY_URL or --server with this machine's own, whatever lies in front of it."""
    for url in dict.fromkeys((own_address(setup), setup.url)):
        connection.save(connection.Connection(url, token), os.environ)


def own_address(setup: Setup) -> str:
    """For who is on this machine, the SSH gateway among them: the one that people use may lead out, through a proxy, and not back in."""
    return f"http://{reachable(setup.host)}:{setup.listener.getsockname()[1]}"


def admin_name() -> str:
    """Who starts it; by sudo, the person behind it. Never root, who is somebody else in every container."""
    account = os.environ.get("SUDO_USER") or getpass.getuser()
    name = re.sub(r"[^a-z0-9_-]", "-", account.lower())[:31].strip("-")
    return name if name[:1].isalpha() and name != "root" else "admin"


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


def make_private(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise BadInput(f"cannot make the data folder {folder}: {error.strerror or error}", "Choose another with --data.") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"the data folder {folder} cannot be written", "Choose another with --data, or mend its rights.")


def write_fairy_command(folder: Path) -> str:
    """A folder with nothing but `fairy` in it, for the PATH of sessions: ours has a Python of its own, which must not hide theirs."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    package_parent = Path(__file__).parents[2]
    begin = f"import sys; sys.path.insert(0, {str(package_parent)!r}); from gpufairy.cli.entry import run; run()"
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(begin)} "$@"\n'
    new = bin_folder / ".fairy.new"
    new.write_text(script)
    new.chmod(0o755)
    new.replace(bin_folder / "fairy")
    return str(bin_folder)


def reachable(host: str) -> str:
    """An address that works from this machine itself."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
