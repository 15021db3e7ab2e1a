"""`fairy disk`: what takes room on disk, how it grows, and what could be removed. It removes nothing."""
from typing import Annotated

import typer

from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import clock_of, print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_count, show_size

User = Annotated[str | None, typer.Option("--user", metavar="USER", help="Admins: of this user.")]
Folder = Annotated[str | None, typer.Option("--folder", metavar="PLACE", help="Admins: its largest folders; or those in PLACE/PATH.")]
Node = Annotated[str | None, typer.Option("--node", metavar="NAME", help="Only what lies on this host.")]
Largest = Annotated[bool, typer.Option("--largest", help="The largest files.")]
Oldest = Annotated[bool, typer.Option("--oldest", help="The largest files that nobody used for half a year.")]
Again = Annotated[bool, typer.Option("--again", help="Admins: walk through all places now; it goes on behind.")]


def _disk(
    ctx: typer.Context, *, user: User = None, node: Node = None, folder: Folder = None, largest: Largest = False,
    oldest: Oldest = False, again: Again = False, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show what takes room on disk: yours, or for admins everybody's. Nothing is ever removed by this."""
    with connect(ctx) as fairy:
        if again:
            fairy.walk_disk()
            say("All places are walked through now; other hosts begin within seconds.")
        if folder is not None:
            _show_folders(fairy, folder, as_json)
            return
        answer = fairy.disk(user if user is not None or not (largest or oldest) else _me(fairy), node)
    if as_json:
        print_json(answer)
    elif not answer["items"] and not answer["places"]:
        print(_unknown(answer))
    elif "largest" not in (answer["items"] or [{}])[0]:
        _print_all(answer)
    else:
        _print_one(answer, answer["items"][0], "largest" if largest else "oldest" if oldest else "")


def _me(fairy: Fairy) -> str:
    return str(fairy.me()["name"])


def _unknown(answer: Record) -> str:
    why = safe(answer.get("why_unknown"))
    return f"Disk use is not known: {why}." if why else "Nobody has looked yet; the first walk is on its way."


def _show_folders(fairy: Fairy, folder: str, as_json: bool) -> None:
    """A place may be a path itself: the longest that is known is meant."""
    names = [str(place["place"]) for place in fairy.disk()["places"]]
    place = max((name for name in names if folder == name or folder.startswith(f"{name.rstrip('/')}/")), key=len, default=folder)
    answer = fairy.disk_folders(place, folder.removeprefix(place).strip("/"))
    if as_json:
        print_json(answer)
        return
    print_table(["SIZE", "FILES", "LAST WRITTEN", "FOLDER"], [_thing(one) for one in answer["items"]])
    print(f"as of {clock_of(answer.get('as_of'))}")


def _print_all(answer: Record) -> None:
    if answer["items"]:
        columns = ["USER", "ON DISK", "FILES", "IN 7 DAYS", "IN A DAY", "UNUSED FOR 6 MONTHS", "LIMIT"]
        print_table(columns, [_user_row(one) for one in answer["items"]])
        print()
    print_table(["PLACE", "ON DISK", "FILES", "IN 7 DAYS", "AS OF", "NOTE"], [_place_row(one) for one in answer["places"]])


def _user_row(one: Record) -> list[str]:
    figures = [size(one["bytes"]), count(one["inodes"]), grown(one["week_bytes"]), grown(one["day_bytes"]), size(one["old_bytes"])]
    return [safe(one["user"]), *figures, _limit(one)]


def _place_row(one: Record) -> list[str]:
    figures = [size(one["bytes"]), count(one["inodes"]), grown(one.get("week_bytes"))]
    return [safe(one["place"]), *figures, clock_of(one["as_of"]) or "never", _place_note(one)]


def _place_note(one: Record) -> str:
    unread, mounts = one.get("unread") or 0, one.get("mounts") or 0
    parts = [
        "looked at more than 2 days ago" if one.get("old") else "", safe(one.get("why_unknown")),
        "the report was too large, and was trimmed" if one.get("named_of_each") is not None else "",
        f"{show_count(unread, 'folder')} could not be read" if unread else "",
        f"{show_count(mounts, 'other disk')} in it not counted" if mounts else "",
    ]  # fmt: skip
    return "; ".join(part for part in parts if part)


def _print_one(answer: Record, one: Record, named: str) -> None:
    if one["bytes"] is None:
        print(_unknown(answer) if answer["as_of"] is None else f"{safe(one['user'])} has nothing on disk.")
        return
    print(_headline(answer, one))
    for place in one["places"]:
        if place.get("old"):
            print(f"{safe(place['place'])} was last looked at {clock_of(place['as_of'])}: what it holds may have changed.")
    if named:
        things = one[named]
        print_table(["SIZE", "LAST USED", "FILE"], [[size(thing["bytes"]), day(thing["used_at"]), safe(thing["path"])] for thing in things])
        if not things:
            print("None of 1 MiB or more.")
        return
    print_table(["SIZE", "FILES", "LAST WRITTEN", "FOLDER"], [_thing(thing) for thing in one["folders"][:12]])
    for advice in one["advice"]:
        print(f"- {safe(advice['what'])}. {safe(advice['next_step'])}")
    if one["images_bytes"]:
        print(f"Images you made: {size(one['images_bytes'])} (`fairy image list`).")


def _headline(answer: Record, one: Record) -> str:
    weeks = "" if one["week_bytes"] is None else f", {grown(one['week_bytes'])} in 7 days"
    limit = "" if one["limit_bytes"] is None else f", of {_limit(one)}"
    return f"{safe(one['user'])}: {size(one['bytes'])} in {_files(one['inodes'])}{limit}{weeks}; as of {clock_of(answer['as_of'])}"


def _limit(one: Record) -> str:
    if one["limit_bytes"] is None:
        return ""
    return f"{size(one['limit_bytes'])} ({'enforced' if one['enforced'] else 'only told'})"


def _thing(one: Record) -> list[str]:
    return [size(one["bytes"]), count(one["inodes"]), day(one["used_at"]), safe(one["path"])]


def size(value: int | None) -> str:
    return "?" if value is None else show_size(int(value))


def _files(value: int | None) -> str:
    return "? files" if value is None else show_count(value, "file")


def count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def grown(value: int | None) -> str:
    if value is None:
        return "?"
    return f"{'-' if value < 0 else '+'}{show_size(abs(int(value)))}"


def day(text: object) -> str:
    return str(text)[:10] if text else "?"


EXAMPLES = "fairy disk\nfairy disk --oldest\nfairy disk --user kim --largest\nfairy disk --folder homes/kim\nfairy disk --node gpu07"
disk = one_command(_disk, EXAMPLES)
