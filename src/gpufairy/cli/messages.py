"""`fairy messages`: where you are told of your own sessions, beside page and terminal."""
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import print_json
from gpufairy.client.values import safe

app = group(
    "Where you are told of your own sessions.", "fairy messages set email kim@lab.example --about failed,ending", means_something_alone=True
)
Kind = Annotated[str, typer.Argument(metavar="email|ntfy|slack|webhook")]


@app.callback(invoke_without_command=True)
def nothing_said(ctx: typer.Context, as_json: AsJson = False) -> None:
    if ctx.invoked_subcommand is None:
        show(ctx, as_json)


@app.command(epilog=example_text("fairy messages show"))
def show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show where you are told, and of what."""
    with connect(ctx) as fairy:
        answer = fairy.messages()
    if as_json:
        print_json(answer)
    elif answer["items"]:
        rows = ([safe(one["kind"]), safe(one["address"]), ", ".join(map(safe, one["about"]))] for one in answer["items"])
        print_table(["BY", "TO", "ABOUT"], rows)
    else:
        offered = ", ".join(map(safe, answer["offered"])) or "nothing else"
        print(f"You are told in your terminals and on the page alone. Offered: {offered}.")


@app.command("set", epilog=example_text("fairy messages set ntfy my-secret-topic-7f3a"))
def set_channel(
    ctx: typer.Context,
    kind: Kind,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="An e-mail address, a topic of ntfy, or the URL of a webhook.")],
    about: Annotated[str | None, typer.Option("--about", metavar="LIST", help="Of started,ending,ended,failed,idle,quota.")] = None,
    as_json: AsJson = False,
) -> None:
    """Be told by e-mail, ntfy, Slack or a webhook."""
    body = {"kind": kind, "address": address}
    with connect(ctx) as fairy:
        made = fairy.set_messages({**body, "about": [one.strip() for one in about.split(",")]} if about else body)
    if as_json:
        print_json(made)
    else:
        about_words = ", ".join(map(safe, made["about"]))
        print(f"You are told at {safe(made['address'])} of: {about_words}. Try it: fairy messages test {safe(kind)}")


@app.command(epilog=example_text("fairy messages remove email"))
def remove(ctx: typer.Context, kind: Kind) -> None:
    """Be told no more by that."""
    with connect(ctx) as fairy:
        fairy.remove_messages(kind)
    print(f"You are told by {safe(kind)} no more.")


@app.command("test", epilog=example_text("fairy messages test email"))
def try_channel(ctx: typer.Context, kind: Kind, as_json: AsJson = False) -> None:
    """Send yourself a test now."""
    with connect(ctx) as fairy:
        sent = fairy.test_messages(kind)
    print_json(sent) if as_json else print(f"A test went to {safe(sent['to'])}.")
