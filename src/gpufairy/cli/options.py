"""What commands share: how they are declared, how they reach the server, and the options that several of them have."""
import os
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

import typer

from gpufairy.client import Fairy
from gpufairy.client.calls import PAGE
from gpufairy.client.connection import find
from gpufairy.client.where import Where, connect_to
from gpufairy.core.errors import FairyError

HELP_BY = {"help_option_names": ["-h", "--help"]}
COMPLETION_LIMIT_S = 1.0  # whoever pressed TAB does not wait longer


def one_command(function: Callable[..., None], example: str, *, takes_a_command: bool = False) -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    # What follows the first word of the job's command is the job's, even if it looks like an option of ours.
    settings = {**HELP_BY, "allow_interspersed_args": False} if takes_a_command else HELP_BY
    app.command(context_settings=settings, epilog=example_text(example))(function)
    return app


def group(help_text: str, example: str, *, means_something_alone: bool = False) -> typer.Typer:
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, no_args_is_help=not means_something_alone, help=help_text,
        epilog=example_text(example), context_settings=HELP_BY,
    )  # fmt: skip


def example_text(example: str) -> str:
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in example.splitlines())


def connect(ctx: typer.Context) -> Fairy:
    return connect_to(ctx.obj)


def where_of(ctx: typer.Context) -> Where:
    return ctx.obj if isinstance(ctx.obj, Where) else Where()


def session_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell's completion: silent when there is no server, since a prompt is no place for errors."""
    asked: dict[str, Any] = ctx.find_root().params
    try:
        found = find(asked.get("server"), asked.get("token_file"), os.environ)
        with Fairy(found.url, found.token, limit_s=COMPLETION_LIMIT_S) as fairy:
            newest = islice(fairy.sessions(ended=ctx.info_name in ENDED_TOO), PAGE)  # one page: a TAB asks the server once
            return [session["name"] for session in newest]
    except FairyError:
        return []


ENDED_TOO = ("show", "logs", "results", "why", "usage")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a session; or USER+NAME.", autocompletion=session_names)]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names or ids of sessions.", autocompletion=session_names)]

Gpus = Annotated[str | None, typer.Option("--gpus", metavar="SHARE", help="2; 0.5 (shared, faults too); 0.5fgpu; mig:1g.5gb; 0. Else 1.")]
GpuKind = Annotated[str | None, typer.Option("--gpu-kind", metavar="KIND", help="Only GPUs of this kind, such as A100-40GB.")]
GpuMemory = Annotated[str | None, typer.Option("--gpu-memory", metavar="SIZE", help="With a fraction: 20GiB. Else the same part.")]
Cpus = Annotated[str | None, typer.Option("--cpus", metavar="N", help="CPUs, such as 4 or 0.5.")]
Memory = Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="Main memory, such as 16GiB.")]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Image to run in.")]
NewName = Annotated[str | None, typer.Option("--name", metavar="NAME", help="A name of your own. Else one is made up.")]
Count = Annotated[int | None, typer.Option("--count", metavar="N", min=1, help="So many of the same.")]
Together = Annotated[bool, typer.Option("--together", help="With --count: all of them start at once, or none.")]
Time = Annotated[str | None, typer.Option("--time", metavar="TIME", help="The longest it may run, such as 90s, 45m, 2h or 1d.")]
Env = Annotated[list[str] | None, typer.Option("--env", metavar="K=V", help="Set a variable; K alone takes yours along. Repeatable.")]
Mount = Annotated[list[str] | None, typer.Option("--mount", metavar="FOLDER", help="Folder to have inside. Repeatable.")]
Preset = Annotated[str | None, typer.Option("--preset", metavar="PRESET", help="Start from a preset of your admin's.")]
Team = Annotated[str | None, typer.Option("--team", metavar="TEAM", help="Team it is counted for.")]
Priority = Annotated[str | None, typer.Option("--priority", metavar="N", help="Higher goes first, as far as you may.")]
Pool = Annotated[str | None, typer.Option("--pool", metavar="POOL", help="Only nodes of this pool.")]
After = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="NAME", help="Only once this session is done. Repeatable.", autocompletion=session_names),
]
Retry = Annotated[int | None, typer.Option("--retry", metavar="N", min=0, help="Try again so often if it fails.")]
Preemptible = Annotated[
    bool, typer.Option("--preemptible", help="May use what others leave unused; goes back into the queue when they want it.")
]
Port = Annotated[list[int] | None, typer.Option("--port", metavar="PORT", min=1, max=65535, help="Port that it serves. Repeatable.")]
Workdir = Annotated[str | None, typer.Option("--workdir", metavar="FOLDER", help="Folder to start in. Else this one, on a server here.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Print the name and return at once.")]
