"""`fairy class`: students of a roster with their accounts, team and quota, from a first day to a last one."""
import base64
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.class_words import (
    bounds_of,
    clear_words,
    ends,
    print_class,
    print_classes,
    print_looked,
    save,
    save_links,
    starts,
)  # fmt: skip
from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count
from gpufairy.core.errors import BadInput

ADD = "fairy class add cs231n --roster students.csv --start 2027-03-02 --end 2027-06-20 --gpus 0.25 --quota gpus=8 --each gpus=1,sessions=1"
app = group("Classes: a roster becomes accounts, a team and a quota, from a first day to a last one.", ADD)

Class = Annotated[str, typer.Argument(metavar="CLASS", help="Name of a class.")]
RosterFile = Annotated[Path, typer.Option("--roster", metavar="FILE", help="CSV: login (or 학번), name, email, ssh key.")]
Team = Annotated[str | None, typer.Option("--team", metavar="TEAM", help="Else called as the class.")]
Quota = Annotated[str | None, typer.Option("--quota", metavar="BOUNDS", help="Of all together: gpus=8,gpu-hours=200,sessions=40")]
Each = Annotated[str | None, typer.Option("--each", metavar="BOUNDS", help="Of each student: gpus=1,sessions=1")]
Preset = Annotated[str | None, typer.Option("--preset", metavar="PRESET", help="What a session of theirs is, where they do not say.")]
Gpus = Annotated[str | None, typer.Option("--gpus", metavar="SHARE", help="The share they get, where they do not say: 0.25")]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="The image, where they do not say.")]
Start = Annotated[str | None, typer.Option("--start", metavar="DAY", help="First day, such as 2027-03-02. Nobody starts anything before.")]
End = Annotated[str, typer.Option("--end", metavar="DAY", help="Last day. Then it is archived by itself.")]
NewEnd = Annotated[str | None, typer.Option("--end", metavar="DAY", help="Last day.")]
Due = Annotated[str | None, typer.Option("--due", metavar="TIME", help="When hand-ins close. Else at the end.")]
Teacher = Annotated[list[str] | None, typer.Option("--teacher", metavar="USER", help="Reads what is handed in. Repeatable.")]
Homes = Annotated[str | None, typer.Option("--homes", metavar="tar|aside|keep", help="What becomes of homes at the end. Else tar.")]
TakeUsers = Annotated[bool, typer.Option("--take-users", help="Students may be users here already.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Users = Annotated[list[str] | None, typer.Option("--user", metavar="USER", help="Only this student. Repeatable.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")]


@app.command(epilog=example_text(ADD))
def add(
    ctx: typer.Context, name: Class, *, roster: RosterFile, end: End, start: Start = None, due: Due = None, team: Team = None,
    quota: Quota = None, each: Each = None, preset: Preset = None, gpus: Gpus = None, image: Image = None, teacher: Teacher = None,
    homes: Homes = None, take_users: TakeUsers = False, dry_run: DryRun = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a class of a roster: accounts, a team, quotas. One line that cannot be, and nothing is done."""
    body = {
        "name": name, "roster": read_file(roster), "start": starts(start), "end": ends(end, "--end"), "due": ends(due, "--due"),
        "team": team,
        "quota": bounds_of(quota, "--quota"), "each": bounds_of(each, "--each"), "preset": preset, "gpus": gpus, "image": image,
        "teachers": teacher, "homes": homes, "take_users": take_users, "dry_run": dry_run,
    }  # fmt: skip
    with connect(ctx) as fairy:
        looked = fairy.add_class({key: value for key, value in body.items() if value is not None})
    if as_json:
        print_json(looked)
    else:
        print_looked(looked, done=not dry_run)
    if looked["faults"]:
        raise typer.Exit(2)
    if not dry_run:
        say(f"Next, links that let the students in: fairy class links {name} -o links.csv")


@app.command("list", epilog=example_text("fairy class list"))
def list_classes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List classes; those that are over last."""
    with connect(ctx) as fairy:
        found = fairy.classes()
    if as_json:
        print_json({"items": found})
    else:
        print_classes(found)


@app.command(epilog=example_text("fairy class show cs231n"))
def show(ctx: typer.Context, name: Class, as_json: AsJson = False) -> None:
    """Show a class and its students."""
    with connect(ctx) as fairy:
        found = fairy.school_class(name)
    if as_json:
        print_json(found)
    else:
        print_class(found)


@app.command(epilog=example_text("fairy class change cs231n --end 2027-06-27\nfairy class change cs231n --due 2027-06-13T18:00"))
def change(
    ctx: typer.Context, name: Class, *, start: Start = None, end: NewEnd = None, due: Due = None, preset: Preset = None,
    gpus: Gpus = None, image: Image = None, teacher: Teacher = None, homes: Homes = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Give a class other dates, teachers or defaults."""
    dates = {"start": starts(start), "end": ends(end, "--end"), "due": ends(due, "--due")}
    said = {**dates, "preset": preset, "gpus": gpus, "image": image, "teachers": teacher, "homes": homes}
    with connect(ctx) as fairy:
        found = fairy.change_class(name, {key: value for key, value in said.items() if value is not None})
    if as_json:
        print_json(found)
    else:
        print_classes([found])


@app.command(epilog=example_text("fairy class roster cs231n --roster students.csv"))
def roster(
    ctx: typer.Context, name: Class, *, roster: RosterFile, take_users: TakeUsers = False, dry_run: DryRun = False, yes: Yes = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Apply a roster again: who is new is added; who is missing is shut out, after asking."""
    body: Record = {"roster": read_file(roster), "take_users": take_users, "dry_run": True}
    with connect(ctx) as fairy:
        looked = fairy.do_to_class(name, "roster", body)
        if not dry_run and not looked["faults"]:
            missing = "disable" if shuts_out(looked, yes=yes) else "keep"
            looked = fairy.do_to_class(name, "roster", {**body, "dry_run": False, "missing": missing})
    if as_json:
        print_json(looked)
    else:
        print_looked(looked, done=not dry_run and not looked["faults"])
    if looked["faults"]:
        raise typer.Exit(2)


def shuts_out(looked: Record, *, yes: bool) -> bool:
    missing = [safe(one["user"]) for one in looked["missing"]]
    if not missing or yes:
        return bool(missing)
    shown = ", ".join(missing[:10]) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")
    return typer.confirm(f"Not in the roster any more: {shown}. Shut them out?", default=False, err=True)


@app.command(epilog=example_text("fairy class links cs231n -o links.csv\nfairy class links cs231n --user s20231234"))
def links(
    ctx: typer.Context, name: Class, *, user: Users = None, output: Output = None,
    everybody: Annotated[bool, typer.Option("--all", help="Of all, also of those who have come in.")] = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make sign-in links, one for each student who has never come in. Each works once; one made anew takes the place of the one before."""
    with connect(ctx) as fairy:
        made = fairy.do_to_class(name, "links", {"users": user, "all": everybody})
    if as_json:
        print_json(made)
    else:
        save_links(made["items"], output)


@app.command(epilog=example_text("fairy class reset cs231n\nfairy class reset cs231n --homes aside"))
def reset(
    ctx: typer.Context, name: Class, *, user: Users = None, yes: Yes = False,
    homes: Annotated[str, typer.Option("--homes", metavar="keep|aside", help="aside: set aside, with empty ones in their place.")] = "keep",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """End all sessions of a class, and set homes aside if you say so. Nothing is deleted."""
    if not yes:
        typer.confirm(f"End all sessions of {name}{' and set homes aside' if homes == 'aside' else ''}?", abort=True, err=True)
    with connect(ctx) as fairy:
        done = fairy.do_to_class(name, "reset", {"homes": homes, "users": user, "confirm": name})
    if as_json:
        print_json(done)
    else:
        aside = " Homes are set aside as soon as nothing runs." if homes == "aside" else ""
        print(f"{show_count(len(done['sessions_ended']), 'session')} of {safe(name)} asked to leave.{aside}")


@app.command(epilog=example_text("fairy class handins cs231n -o handins.tar"))
def handins(ctx: typer.Context, name: Class, output: Output = None) -> None:
    """Fetch what was handed in, as a tar file with a folder for each student."""
    with connect(ctx) as fairy:
        save(fairy.hand_ins(name), output or Path(f"{name}-handins.tar"))


@app.command(epilog=example_text("fairy class archive cs231n"))
def archive(ctx: typer.Context, name: Class, yes: Yes = False, as_json: AsJson = False) -> None:
    """Close a class now: accounts are shut, sessions end, homes are set aside, hand-ins stay."""
    if not yes:
        typer.confirm(f"Close class {name} now? Its students are shut out.", abort=True, err=True)
    with connect(ctx) as fairy:
        _done(fairy, name, as_json)


def _done(fairy: Fairy, name: str, as_json: bool) -> None:
    found = fairy.do_to_class(name, "archive", {})
    if as_json:
        print_json(found)
    else:
        print(f"{safe(name)} is {clear_words(found['state'])}.")


@app.command(epilog=example_text("fairy class remove cs231n"))
def remove(ctx: typer.Context, name: Class) -> None:
    """Forget a class that is archived. Accounts, hand-ins and homes set aside stay."""
    with connect(ctx) as fairy:
        fairy.remove_class(name)
    print(f"Class {safe(name)} is forgotten.")


def read_file(path: Path) -> str:
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise BadInput(f"roster {path} cannot be read: {error.strerror}", "Give the path of a CSV file.") from None
