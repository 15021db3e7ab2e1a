"""`fairy ssh`: into a session, by the ssh that is on this machine."""
import os
import re
import shutil
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gpufairy.cli.options import connect, one_command, session_names
from gpufairy.client.connection import config_folder
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.names import session_name

HOST_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{20,200}")

OwnName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name of a session. Else the one you have.", autocompletion=session_names)
]
Words = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Run this instead of a shell.")]


def _ssh(ctx: typer.Context, name: OwnName = None, command: Words = None) -> None:
    """Come into a session: a shell, or one command. Without a session of yours, one is started.

    The same as `ssh -p 8422 USER+NAME@HOST`, which works with scp, sftp, rsync and VS Code too.
    """
    with connect(ctx) as fairy:
        me, keys, host = fairy.me(), fairy.keys(), urlsplit(fairy.url).hostname or "localhost"
    if me.get("ssh_port") is None:
        raise Conflict("this server has no SSH gateway", "Ask an admin: ssh.enabled in fairy.toml.")
    if not keys:
        raise Conflict("this server knows no SSH key of yours", "Give it one: fairy key add (see `fairy key -h`).")
    program = shutil.which("ssh")
    if program is None:
        raise BadInput("there is no ssh on this machine", "Install the OpenSSH client.")
    who = f"{me['name']}+{session_name(name)}" if name else str(me["name"])
    known = known_host(host, int(me["ssh_port"]), me.get("ssh_host_key"))
    os.execv(program, ["ssh", *known, "-p", str(me["ssh_port"]), f"{who}@{host}", *(["--", *command] if command else [])])


def known_host(host: str, port: int, key: object) -> list[str]:
    """The gateway's key as the server tells it: nobody need say yes to a stranger's. Your own list of known hosts counts as well."""
    if not isinstance(key, str) or not HOST_KEY.fullmatch(key):
        return []
    path = config_folder(os.environ) / "known_hosts"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(f"[{host}]:{port} {key}\n")
    return ["-o", f'UserKnownHostsFile="{path}" ~/.ssh/known_hosts']


ssh = one_command(_ssh, "fairy ssh brave-otter\nfairy ssh brave-otter nvidia-smi", takes_a_command=True)
