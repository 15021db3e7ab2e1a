"""`fairy team`: who shares one part of the GPUs, and how large that part is."""
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe

app = group("Teams: who shares one part of the GPUs, and how large it is.", "fairy team add nlp --share 2")

COLUMNS = ["NAME", "SHARE", "GPUS HELD", "SESSIONS", "USERS"]
Team = Annotated[str, typer.Argument(metavar="TEAM", help="Name of a team.")]
ShareOption = Annotated[float, typer.Option("--share", metavar="N", help="Its part against the other teams': 2 is twice as much as 1.")]
ShareArgument = Annotated[float, typer.Argument(metavar="N", help="Its part against the other teams': 2 is twice as much as 1.")]


@app.command(epilog=example_text("fairy team add nlp --share 2"))
def add(ctx: typer.Context, team: Team, share: ShareOption = 1.0, as_json: AsJson = False) -> None:
    """Make a team."""
    with connect(ctx) as fairy:
        _print(fairy.add_team(team, share), as_json)


@app.command("list", epilog=example_text("fairy team list"))
def list_teams(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List teams, their shares and what they hold now."""
    with connect(ctx) as fairy:
        teams = fairy.teams()
    if as_json:
        print_json({"items": teams})
    elif not teams:
        print("No teams: everybody counts alone. Try: fairy team add nlp")
    else:
        print_table(COLUMNS, [_row(team) for team in teams])


@app.command(epilog=example_text("fairy team show nlp"))
def show(ctx: typer.Context, team: Team, as_json: AsJson = False) -> None:
    """Show one team."""
    with connect(ctx) as fairy:
        _print(fairy.team(team), as_json)


@app.command(epilog=example_text("fairy team share nlp 2"))
def share(ctx: typer.Context, team: Team, share: ShareArgument, as_json: AsJson = False) -> None:
    """Give a team another share. It counts from the next start on."""
    with connect(ctx) as fairy:
        _print(fairy.change_team(team, share), as_json)


@app.command(epilog=example_text("fairy team remove nlp"))
def remove(ctx: typer.Context, team: Team) -> None:
    """Remove a team that nobody is in, with its quotas."""
    with connect(ctx) as fairy:
        fairy.remove_team(team)
    print(f"Team {safe(team)} is gone.")


def _row(team: Record) -> list[str]:
    users = ", ".join(map(safe, team["users"]))
    return [safe(team["name"]), f"{team['share']:g}", f"{team['gpus_held']:g}", str(team["sessions"]), users]


def _print(team: Record, as_json: bool) -> None:
    if as_json:
        print_json(team)
        return
    print_pairs(zip(["name", "share", "GPUs held", "sessions", "users"], _row(team), strict=True))
