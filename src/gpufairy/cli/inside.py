"""`fairy ssh`: into a session, by the ssh that is on this machine."""
import os
import shutil
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gpufairy.cli.options import connect, one_command, session_names
from gpufairy.core.errors import BadInput, Conflict
from gpufairy.core.names import session_name

OwnName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name of a session. Else the one you have.", autocompletion=session_names)
]
Words = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Run this instead of a shell.")]


def _ssh(ctx: typer.Context, name: OwnName = None, command: Words = None) -> None:
    """Come into a session: a shell, or one command. Without a session of yours, one is started.

    The same as `ssh -p 8422 USER+NAME@HOST`, which works with scp, sftp, rsync and VS Code too.
    """
    with connect(ctx) as fairy:
        me, host = fairy.me(), urlsplit(fairy.url).hostname or "localhost"
    if me.get("ssh_port") is None:
        raise Conflict("this server has no SSH gateway", "Ask an admin: ssh.enabled in fairy.toml.")
    program = shutil.which("ssh")
    if program is None:
        raise BadInput("there is no ssh on this machine", "Install the OpenSSH client.")
    who = f"{me['name']}+{session_name(name)}" if name else str(me["name"])
    os.execv(program, ["ssh", "-p", str(me["ssh_port"]), f"{who}@{host}", *(["--", *command] if command else [])])


ssh = one_command(_ssh, "fairy ssh brave-otter\nfairy ssh brave-otter nvidia-smi", takes_a_command=True)
