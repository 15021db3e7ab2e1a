"""`fairy up` in the foreground: decides, starts the server, signs the person who started it in, and says what there is."""
import asyncio
import gc
import getpass
import logging
import os
import re
import shlex
import sys
from pathlib import Path

from gpufairy.api.context import Context
from gpufairy.client import connection, local_server
from gpufairy.control.house import House
from gpufairy.core.errors import BadInput, NotSignedIn
from gpufairy.core.unit_file import SERVER
from gpufairy.main.banner import banner
from gpufairy.main.folders import data_folder, make_private
from gpufairy.main.install import Machine, given, install, server_service, uninstall
from gpufairy.main.machine import chosen_engine, this_node
from gpufairy.main.ports import listen
from gpufairy.main.say import say
from gpufairy.main.serve import Setup, serve
from gpufairy.main.up_options import ANNOUNCE, UpOptions
from gpufairy.wire.config import load_config


def serve_here(options: UpOptions) -> None:
    settings = load_config(options.config)
    settings.to_policy()
    settings.reclaim.to_ladders()
    settings.limits.check()
    settings.oidc.to_settings()
    chosen = chosen_engine(options.engine, settings)
    folder = data_folder(options.data, dict(os.environ))
    node = this_node(settings, options.simulate, chosen)
    make_private(folder)
    host = options.listen or settings.server.listen
    listener = listen(host, settings.server.port if options.port is None else options.port)
    url = settings.server.url or f"http://{reachable(host)}:{listener.getsockname()[1]}"
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    called = os.environ.get("FAIRY_COMMAND", "fairy")
    ssh_port = settings.ssh.port if options.ssh_port is None else options.ssh_port
    setup = Setup(
        folder, listener, url, node, settings, write_fairy_command(folder), admin_name(), called, chosen, host, ssh_port, options.config
    )
    asyncio.run(serve(setup, lambda context: ready(setup, context)))


def as_service(options: UpOptions, *, remove: bool, dry_run: bool) -> None:
    if remove:
        uninstall(SERVER, Machine(), dry_run=dry_run)
        return
    chosen = chosen_engine(options.engine, load_config(options.config))
    words = given(port=options.port, listen=options.listen, ssh_port=options.ssh_port, simulate=options.simulate)
    install(server_service(chosen, options.data, options.config, words), Machine(), dry_run=dry_run)


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
