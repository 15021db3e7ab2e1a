"""`fairy user`: who may use this, and as what."""
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

app = group("Users: who may use this, and as what.", "fairy user add student1 --team nlp")

User = Annotated[str, typer.Argument(metavar="USER", help="Name of a user.")]
Team = Annotated[str | None, typer.Option("--team", metavar="TEAM", help="Team that they belong to.")]
Role = Annotated[str | None, typer.Option("--role", metavar="ROLE", help="What they may do, such as user or admin.")]


@app.command(epilog=example_text("fairy user add student1 --team nlp"))
def add(ctx: typer.Context, user: User, role: Role = None, team: Team = None, as_json: AsJson = False) -> None:
    """Add a user."""
    asked = {"name": user, "role": role, "team": team}
    with connect(ctx) as fairy:
        made = fairy.add_user({name: value for name, value in asked.items() if value is not None})
    _print(made, as_json)
    say(f"Next, a token to sign in with: fairy token create --user {user}")


@app.command("list", epilog=example_text("fairy user list"))
def list_users(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List users."""
    with connect(ctx) as fairy:
        users = fairy.users()
    if as_json:
        print_json({"items": users})
    elif not users:
        print("No users. Try: fairy user add student1")
    else:
        print_table(["NAME", "ROLE", "TEAM", "STATE"], [_row(user) for user in users])


@app.command(epilog=example_text("fairy user show student1"))
def show(ctx: typer.Context, user: User, as_json: AsJson = False) -> None:
    """Show one user."""
    with connect(ctx) as fairy:
        _print(fairy.user(user), as_json)


@app.command(epilog=example_text("fairy user role student1 admin"))
def role(
    ctx: typer.Context,
    user: User,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Such as user or admin.")],
    as_json: AsJson = False,
) -> None:
    """Give a user another role."""
    with connect(ctx) as fairy:
        _print(fairy.change_user(user, {"role": role}), as_json)


@app.command(epilog=example_text("fairy user disable student1"))
def disable(ctx: typer.Context, user: User, as_json: AsJson = False) -> None:
    """Shut a user out, at once and everywhere; nothing of theirs is deleted."""
    with connect(ctx) as fairy:
        _print(fairy.change_user(user, {"disabled": True}), as_json)


@app.command(epilog=example_text("fairy user enable student1"))
def enable(ctx: typer.Context, user: User, as_json: AsJson = False) -> None:
    """Let a user in again."""
    with connect(ctx) as fairy:
        _print(fairy.change_user(user, {"disabled": False}), as_json)


def _row(user: Record) -> list[str]:
    return [safe(user["name"]), safe(user.get("role")), safe(user.get("team")), "disabled" if user.get("disabled") else ""]


def _print(user: Record, as_json: bool) -> None:
    if as_json:
        print_json(user)
        return
    name, role, team, state = _row(user)
    print_pairs([("name", name), ("role", role), ("team", team), ("state", state)])
