"""`fairy login` and `fairy whoami`: who you are, and where."""
import getpass
import os
import sys
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.connection import Connection, read_token, save
from gpufairy.client.protocol import checked_token, is_loopback
from gpufairy.client.values import safe
from gpufairy.client.where import Where


def _login(ctx: typer.Context, url: Annotated[str, typer.Argument(metavar="URL", help="The server, like http://gpu01:8420.")]) -> None:
    """Sign in to a server: the token is asked for, tried, and stored for this user alone.

    A script writes the token to stdin, or names its file with --token-file before `login`.
    """
    if url.startswith("http:") and not is_loopback(url):
        say(f"fairy: {url} is not encrypted: whoever listens on the way can read your token")
    connection = Connection(url.strip().rstrip("/"), _token(ctx))
    with Fairy(connection.url, connection.token) as fairy:
        me = fairy.me()
    path = save(connection, os.environ)
    print(f"signed in to {safe(connection.url)} as {safe(me.get('name'))} ({safe(me.get('role'))}); stored in {path}")


def _token(ctx: typer.Context) -> str:
    if isinstance(ctx.obj, Where) and ctx.obj.token_file is not None:
        return read_token(ctx.obj.token_file)
    if sys.stdin.isatty():
        return checked_token(getpass.getpass("Token: "), "what you typed")
    return checked_token(sys.stdin.readline(), "stdin")


def _whoami(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Say who you are here, and where that is."""
    with connect(ctx) as fairy:
        me, url = fairy.me(), fairy.url
    if as_json:
        print_json({**me, "url": url})
        return
    team = f", team {safe(me['team'])}" if me.get("team") else ""
    scope = (me.get("token") or {}).get("scope")
    print(f"{safe(me.get('name'))} ({safe(me.get('role'))}{team}) on {safe(url)}" + (f", with a token for {safe(scope)}" if scope else ""))


def _web(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Print a link that signs you in to the page. It works once, within an hour."""
    with connect(ctx) as fairy:
        link = fairy.sign_in_link()
    if as_json:
        print_json({"url": link})
    else:
        print(link)


web = one_command(_web, "fairy web")
login = one_command(_login, "fairy login http://gpu01:8420\nfairy --token-file token login http://gpu01:8420")
whoami = one_command(_whoami, "fairy whoami")
