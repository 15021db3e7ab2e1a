"""`fairy token`: what scripts sign in with. The token itself is printed once, alone on stdout."""
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

app = group("Tokens: what scripts sign in with.", "fairy token create --label ci --expires 30d")

ForUser = Annotated[str | None, typer.Option("--user", metavar="USER", help="Another user's, for admins.")]


@app.command(epilog=example_text("fairy token create --label ci --expires 30d > token && chmod 600 token"))
def create(
    ctx: typer.Context,
    *,
    label: Annotated[str | None, typer.Option("--label", metavar="TEXT", help="What it is for.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="TIME", help="After how long it ends, such as 30d.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", help="Fewer rights than yours.")] = None,
    user: ForUser = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it: this once, never again."""
    asked = {"label": label, "expires": expires, "scope": scope, "user": user}
    with connect(ctx) as fairy:
        made = fairy.create_token({name: value for name, value in asked.items() if value is not None})
    if as_json:
        print_json(made)
        return
    print(safe(made["token"]))
    say(f"Keep it safe, it is not shown again. Undo: fairy token revoke {made.get('id')}")


@app.command("list", epilog=example_text("fairy token list"))
def list_tokens(ctx: typer.Context, user: ForUser = None, as_json: AsJson = False) -> None:
    """List tokens, without the secrets themselves."""
    with connect(ctx) as fairy:
        tokens = fairy.tokens(user)
    if as_json:
        print_json({"items": tokens})
    elif not tokens:
        print("No tokens. Try: fairy token create --label ci --expires 30d")
    else:
        print_table(["ID", "SCOPE", "USER", "EXPIRES", "LABEL"], [_row(token) for token in tokens])


def _row(token: Record) -> list[str]:
    expires = clock_of(token.get("expires_at"))
    return [safe(token.get("id")), safe(token.get("scope")), safe(token.get("user")), expires or "never", safe(token.get("label"))]


@app.command(epilog=example_text("fairy token revoke 7"))
def revoke(ctx: typer.Context, token_id: Annotated[str, typer.Argument(metavar="ID", help="As `fairy token list` shows it.")]) -> None:
    """End a token at once."""
    with connect(ctx) as fairy:
        fairy.revoke_token(token_id)
    print(f"token {safe(token_id)} is revoked")
