"""`fairy user`: who may use this, and as what."""
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.team import checked_share

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
        print_table(["NAME", "ROLE", "TEAM", "SHARE", "STATE"], [_row(user) for user in users])


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


@app.command(epilog=example_text("fairy user team student1 nlp\nfairy user team student1 none"))
def team(
    ctx: typer.Context,
    user: User,
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Name of a team, or none.")],
    as_json: AsJson = False,
) -> None:
    """Put a user into a team. Sessions of theirs that are there already stay with the old one."""
    with connect(ctx) as fairy:
        _print(fairy.change_user(user, {"team": "" if team == "none" else team}), as_json)


@app.command(epilog=example_text("fairy user share student1 2"))
def share(
    ctx: typer.Context,
    user: User,
    share: Annotated[float, typer.Argument(metavar="N", help="2 is twice as much as the others in the team have, with 1.")],
    as_json: AsJson = False,
) -> None:
    """Give a user another share of their team's part; of who has no team, against the teams."""
    with connect(ctx) as fairy:
        _print(fairy.change_user(user, {"share": checked_share(share)}), as_json)


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
    state = "disabled" if user.get("disabled") else ""
    return [safe(user["name"]), safe(user.get("role")), safe(user.get("team")), f"{user.get('share', 1):g}", state]


def _print(user: Record, as_json: bool) -> None:
    if as_json:
        print_json(user)
        return
    print_pairs(zip(["name", "role", "team", "share", "state"], _row(user), strict=True))
