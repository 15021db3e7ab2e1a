"""Where `fairy` begins: the options before the command, and how every error leaves."""
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from gpufairy import __version__
from gpufairy.cli.exits import exit_code_of, say_error, say_unexpected
from gpufairy.cli.options import HELP_BY, example_text
from gpufairy.cli.table import LazyGroup
from gpufairy.client.where import Where
from gpufairy.core.errors import FairyError

EXAMPLE = """fairy run --gpus 0.5 -- python train.py
fairy ps"""


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    sys.excepthook = say_unexpected
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Unicode shows ? for a dot, not an error
            stream.reconfigure(errors="replace")
    try:
        root_command()(args=None if arguments is None else list(arguments), prog_name="fairy")
    except FairyError as error:
        say_error(error)
        sys.exit(exit_code_of(error))
    finally:
        _flush_quietly()
    sys.exit(0)


def _flush_quietly() -> None:
    """`fairy ps | head -1` closes the pipe while we still write: no error of anybody's."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer goes nowhere; else the interpreter complains about it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def root_command() -> Any:
    app = typer.Typer(rich_markup_mode=None)
    app.callback(
        cls=LazyGroup, no_args_is_help=True, context_settings=HELP_BY, epilog=example_text(EXAMPLE), help="Share GPUs fairly."
    )(before_the_command)  # fmt: skip
    return get_command(app)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"fairy {__version__}")
        raise typer.Exit


def before_the_command(
    ctx: typer.Context,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="Server to ask. Else FAIRY_URL, else your sign-in.")] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="File that holds your token for it.")] = None,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Show the version.")] = False,
) -> None:
    ctx.obj = Where(server, token_file)
