"""`fairy move`: all that one server knows and keeps, brought to another; or into a folder, and from there on."""
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from gpufairy.cli.exits import FAILED, say
from gpufairy.cli.options import AsJson, one_command
from gpufairy.cli.words import print_json
from gpufairy.client.errors import Problem
from gpufairy.client.move_ends import End, end_of
from gpufairy.client.move_home import HomeDone, looked_at, move_home, seen_of
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_size
from gpufairy.core.errors import BadInput
from gpufairy.core.move_plan import Deed, Household, Step, plan_people

PARTS = ("people", "homes", "history")
NOT_FOUND = 404
MOST_NAMED = 5
STAYS = (
    "Nothing is stopped, changed or removed where it comes from. Tokens and passwords do not move: who has an SSH key signs in with it, "
    "the others are given a token."
)

Source = Annotated[str, typer.Argument(metavar="FROM", help="A server's address (fairy login there first), or a folder.")]
Target = Annotated[str, typer.Argument(metavar="TO", help="The same.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Users = Annotated[list[str] | None, typer.Option("--user", metavar="USER", help="Only the homes of these. Repeatable.")]
Without = Annotated[list[str] | None, typer.Option("--without", metavar="PART", help=f"One of {', '.join(PARTS)}. Repeatable.")]


@dataclass(slots=True)
class Moved:
    people: list[Step] = field(default_factory=list)
    homes: list[HomeDone] = field(default_factory=list)
    home_bytes: dict[str, int] = field(default_factory=dict)  # to be sent
    past: int = 0
    readings: int = 0
    images: list[dict[str, Any]] = field(default_factory=list)
    live: int = 0
    left: list[str] = field(default_factory=list)


def _move(
    source: Source, target: Target, *, dry_run: DryRun = False, user: Users = None, without: Without = None, as_json: AsJson = False
) -> None:
    """Bring users, keys, teams, quotas, homes and history of one server to another. Killed or called again, it goes on where it was."""
    if source.rstrip("/") == target.rstrip("/"):
        raise BadInput("FROM and TO are the same", "Name two servers, or a server and a folder.")
    unknown = [part for part in without or () if part not in PARTS]
    if unknown:
        raise BadInput(f"--without: found {unknown[0][:40]!r}", f"Write one of {', '.join(PARTS)}.")
    parts = [part for part in PARTS if part not in (without or ())]
    with closing(end_of(source, os.environ, is_source=True)) as here, closing(end_of(target, os.environ, is_source=False)) as there:
        moved = move(here, there, parts, user, dry_run=dry_run)
    if as_json:
        print_json(shape(moved, dry_run=dry_run))
    else:
        show(moved, dry_run=dry_run)
    if moved.left:
        raise typer.Exit(FAILED)


move_command = one_command(
    _move, "fairy move http://box:8420 https://gpu.lab.example --dry-run\nfairy move http://box:8420 ./moving\nfairy move ./moving https://gpu.lab.example"
)  # fmt: skip


def move(source: End, target: End, parts: Sequence[str], users: list[str] | None, *, dry_run: bool) -> Moved:
    people, there = source.household(), target.household()
    moved = Moved(images=source.images(), live=source.live())
    if "people" in parts:
        move_people(moved, people, there, target, dry_run=dry_run)
    if "homes" in parts:
        for name in wanted_users(people, users):
            move_one_home(moved, name, source, target, dry_run=dry_run)
    if "history" in parts:
        for what in ("past", "readings"):
            move_history(moved, what, source, target, dry_run=dry_run)
    return moved


def wanted_users(people: Household, users: list[str] | None) -> list[str]:
    names = [str(user["name"]) for user in people.users]
    unknown = [name for name in users or () if name not in names]
    if unknown:
        raise BadInput(f"--user: there is no {unknown[0][:40]!r} where it comes from", "See `fairy user list`.")
    return users or names


def move_people(moved: Moved, people: Household, there: Household, target: End, *, dry_run: bool) -> None:
    moved.people = plan_people(people, there)
    for step in moved.people:
        if step.deed is Deed.ADD and not dry_run:
            try:
                target.add(step)
            except Problem as problem:
                moved.left.append(f"{step.what} {step.name}: {problem.detail}")


def move_one_home(moved: Moved, user: str, source: End, target: End, *, dry_run: bool) -> None:
    here, there = source.home(user), target.home(user)
    try:
        if dry_run:
            found, done = looked_at(user, seen_of(here.lines()), seen_of(lines_or_none(there)))
            done.sent = len(found.send) + len(found.doubt)
            moved.home_bytes[user] = found.send_bytes
        else:
            done = move_home(user, here, there)
            moved.home_bytes[user] = done.sent_bytes
            say(f"{user}: {show_count(done.sent, 'file')}, {show_size(done.sent_bytes)}")
    except Problem as problem:
        moved.left.append(f"home of {user}: {problem.detail}")
        return
    moved.homes.append(done)
    moved.left += [f"home of {user}: {path}: {words}" for path, words in done.left.items()]


def lines_or_none(home: Any) -> Any:
    """Of somebody who is not there yet."""
    try:
        yield from home.lines()
    except Problem as problem:
        if problem.status != NOT_FOUND:
            raise
        yield {"done": True, "others": 0}


def move_history(moved: Moved, what: str, source: End, target: End, *, dry_run: bool) -> None:
    for page in source.pages(what):
        new = len(page) if dry_run or not page else target.put(what, page)
        setattr(moved, what, getattr(moved, what) + new)


def shape(moved: Moved, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "people": [{"what": step.what, "name": step.name, "deed": step.deed, "words": step.words} for step in moved.people],
        "homes": [{**asdict(done), "bytes": moved.home_bytes.get(done.user, 0)} for done in moved.homes],
        "past": moved.past, "readings": moved.readings, "images": [image_words(image) for image in moved.images],
        "live": moved.live, "left": moved.left,
    }  # fmt: skip


def show(moved: Moved, *, dry_run: bool) -> None:
    for what in ("team", "user", "key", "quota"):
        counts = Counter(step.deed for step in moved.people if step.what == what)
        if counts:
            there = counts[Deed.SAME] + counts[Deed.DIFFERS]
            print(f"{what}s: {counts[Deed.ADD]} {'to add' if dry_run else 'added'}, {there} there already")
    for step in moved.people:
        if step.deed is Deed.DIFFERS:
            print(f"  {step.what} {safe(step.name)} stays as it is there: {safe(step.words)}")
    for done in moved.homes:
        words = "to send" if dry_run else "sent"
        size = show_size(moved.home_bytes.get(done.user, 0))
        print(f"home of {safe(done.user)}: {show_count(done.sent, 'file')} {words} ({size}), {done.same} the same")
        for path in done.newer[:MOST_NAMED]:
            print(f"  newer there, and left alone: {safe(path)}")
        if len(done.newer) > MOST_NAMED:
            print(f"  … and {len(done.newer) - MOST_NAMED} more")
    past, readings = show_count(moved.past, "session"), show_count(moved.readings, "stretch", "stretches")
    print(f"history: {past} that are over, {readings} of readings {'to send' if dry_run else 'were new'}")
    for image in moved.images:
        print(image_words(image))
    if moved.live:
        live = show_count(moved.live, "session")
        print(f"{live} still live where it comes from, and staying there. Move again when that is over: the rest comes then.")
    print(STAYS)
    for line in moved.left:
        say(f"left: {line}")


def image_words(image: dict[str, Any]) -> str:
    name = safe(image.get("name"))
    if image.get("made") is None:
        return f"image {name}: a cluster fetches it from its registry"
    return f"image {name} was made here, and no registry has it: docker tag {name} REGISTRY/{name} && docker push REGISTRY/{name}"
