"""`fairy image`: what sessions can start from."""
from datetime import UTC, datetime
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.tables import print_pairs, print_table
from gpufairy.cli.words import age_of, print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size
from gpufairy.core.errors import EngineRefused, NoSuchThing
from gpufairy.core.image import image_name
from gpufairy.core.names import nearest

app = group("Images: what sessions start from.", "fairy image list\nfairy image pull pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime")

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of an image, with its tag.")]


@app.command("list", epilog=example_text("fairy image list"))
def list_images(ctx: typer.Context, as_json: AsJson = False) -> None:
    """List the images on this machine, versions side by side."""
    with connect(ctx) as fairy:
        images = fairy.images()
    if as_json:
        print_json({"items": images})
    elif not images:
        print("No images here yet. One is fetched when a session asks for it, or by: fairy image pull NAME")
    else:
        print_table(["IMAGE", "SIZE", "CUDA", "LAST USED", "MADE BY", "NOTE"], [_row(image) for image in images])


def _row(image: Record) -> list[str]:
    made = image.get("made") or {}
    used = age_of(image.get("last_used_at"), datetime.now(UTC))
    return [
        safe(image["name"]),
        show_size(image["size_bytes"]),
        safe(image.get("cuda")),
        f"{used} ago" if used else "",
        safe(made.get("owner")),
        note_on(image),
    ]


def note_on(image: Record) -> str:
    if image.get("why_not"):
        return safe(image["why_not"])
    state = (image.get("made") or {}).get("state")
    notes = ["default"] if image.get("default") else []
    notes += ["you are root in it"] if image.get("root_inside") else []
    notes += ["waits for approval"] if state == "waiting" else []
    return ", ".join(notes)


@app.command(epilog=example_text("fairy image show kim/with-apex:1"))
def show(ctx: typer.Context, image: Image, as_json: AsJson = False) -> None:
    """Show all about one image: where it comes from, and what was put into it."""
    name = image_name(image)
    with connect(ctx) as fairy:
        images = {found["name"]: found for found in fairy.images()}
    if name not in images:
        raise NoSuchThing(f"no image {name!r} on this machine{nearest(name, images)}", "See `fairy image list`.")
    found, made = images[name], images[name].get("made") or {}
    if as_json:
        print_json(found)
        return
    pairs = [
        ("name", found["name"]), ("id", found["id"]), ("size", show_size(found["size_bytes"])), ("cuda", found.get("cuda") or ""),
        ("made by", made.get("owner") or ""), ("made from", made.get("made_from") or ""), ("of session", made.get("session") or ""),
        ("state", made.get("state") or ""), ("note", note_on(found)), ("packages", "\n".join(made.get("packages") or [])),
    ]  # fmt: skip
    print_pairs([(title, str(value)) for title, value in pairs])


@app.command(epilog=example_text("fairy image pull ubuntu:24.04"))
def pull(ctx: typer.Context, image: Image, as_json: AsJson = False) -> None:
    """Fetch an image now, so that no session waits for it."""
    line, last = StatusLine(), {}
    with connect(ctx) as fairy:
        for last in fairy.pull_image(image):
            if as_json:
                print_json(last)
            elif "words" in last:
                line.show_text(f"{image}: {last['words']}")
    line.clear()
    if "error" in last:
        raise EngineRefused(last["error"], last.get("next") or "")
    if not as_json:
        print(f"{safe(image)} is here")


@app.command(epilog=example_text("fairy image approve kim/with-apex:1"))
def approve(ctx: typer.Context, image: Image) -> None:
    """Let everybody use an image that was made here (admins)."""
    with connect(ctx) as fairy:
        fairy.decide_image(image, True)
    print(f"everybody may use {safe(image)}")


@app.command(epilog=example_text("fairy image refuse kim/with-apex:1"))
def refuse(ctx: typer.Context, image: Image) -> None:
    """Turn an image down (admins): nobody may use it."""
    with connect(ctx) as fairy:
        fairy.decide_image(image, False)
    print(f"nobody may use {safe(image)}")


@app.command(epilog=example_text("fairy image remove kim/with-apex:1"))
def remove(ctx: typer.Context, image: Image) -> None:
    """Remove an image that you made; admins any."""
    with connect(ctx) as fairy:
        fairy.remove_image(image)
    print(f"{safe(image)} is removed")
