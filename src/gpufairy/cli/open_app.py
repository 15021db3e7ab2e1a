"""`fairy open`: Jupyter and other apps of a session, in the browser."""
import os
import subprocess
import sys
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, Name, connect, one_command
from gpufairy.cli.words import print_json
from gpufairy.client.values import safe
from gpufairy.core.apps import BY_NAME, app_named

AppName = Annotated[
    str, typer.Argument(metavar="APP", help="jupyter, tensorboard, mlflow, code, or port:8000.", autocompletion=lambda: list(BY_NAME))
]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Print the address alone.")]


def _open_app(ctx: typer.Context, name: Name, app: AppName, as_json: AsJson = False, no_browser: NoBrowser = False) -> None:
    """Open an app of a session in the browser, started if need be. The address works once, within a minute."""
    wanted = app_named(app)
    with connect(ctx) as fairy:
        opened = fairy.open_app(name, wanted.name)
    if as_json:
        print_json(opened)
    else:
        print(safe(opened["url"]), flush=True)
        if opened.get("state") != "ready":
            say(f"{wanted.title} is starting; the page comes up when it answers")
    if not no_browser and not as_json and has_display():
        show(str(opened["url"]))


def has_display() -> bool:
    """Whether somebody sits before it: elsewhere a browser would be one of text, inside this very terminal."""
    shown = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shown and sys.stdout.isatty()


def show(url: str) -> None:
    """By a process of its own, since some browsers return only when they are closed; and by its input, since others see arguments."""
    opening = [sys.executable, "-c", "import sys, webbrowser; webbrowser.open(sys.stdin.read())"]
    try:
        child = subprocess.Popen(
            opening, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )  # fmt: skip
    except OSError:
        return
    if child.stdin is not None:
        with child.stdin as asked:
            asked.write(url.encode())


open_app = one_command(_open_app, "fairy open brave-otter jupyter\nfairy open brave-otter port:8000")
