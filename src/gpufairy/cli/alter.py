"""`fairy keep`, `swap`, `commit`: what can be changed about a session that runs. And `resume`, for one that is over."""
from typing import Annotated

import typer

from gpufairy.cli.exits import FAILED, say
from gpufairy.cli.follow import Follower
from gpufairy.cli.options import AsJson, Name, connect, one_command
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.words import clock_of, print_json, write_raw
from gpufairy.client.values import safe
from gpufairy.core.amounts import show_size
from gpufairy.core.image import image_name

PACKAGES_SHOWN = 20

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of an image, as `fairy image list` shows them.")]


def _keep(
    ctx: typer.Context, name: Name, time: Annotated[str, typer.Argument(metavar="TIME", help="Such as 2h.")], as_json: AsJson = False
) -> None:
    """Let a session run at least so long from now, and let it keep its GPUs until then, used or not."""
    with connect(ctx) as fairy:
        session = fairy.keep(name, time)
    if as_json:
        print_json(session)
    elif session.get("ends_at") is None:
        until = clock_of((session.get("idle") or {}).get("kept_until"))
        print(f"{safe(session['name'])} has no time limit; it keeps its GPUs until {until}, used or not")
    else:
        print(f"{safe(session['name'])} may run until {clock_of(session['ends_at'])}")


def _resume(ctx: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Start a session that is over again: same name, same request, from the image that was kept of it if there is one."""
    with connect(ctx) as fairy:
        session = fairy.resume_session(name)
    if as_json:
        print_json(session)
        return
    image = (session.get("request") or {}).get("image")
    print(f"{safe(session['name'])} is submitted again" + (f", from image {safe(image)}" if image else "") + "; see `fairy ps`")


def _swap(ctx: typer.Context, name: Name, image: Image, as_json: AsJson = False) -> None:
    """Give a session another image: same name, home, mounts and GPUs. Undone by itself if that does not start.

    What runs in it ends. What you changed outside your home stays behind with the old image: `fairy commit` first, to keep it.
    """
    with connect(ctx) as fairy:
        session = Follower(fairy, write_raw, StatusLine()).to_running(fairy.swap(name, image), through=("STOPPING", "PENDING", "STARTING"))
    if as_json:
        print_json(session)
    found = (session.get("request") or {}).get("image")
    asked = image_name(image)
    # What was made here has a short name, though somebody wrote the registry's.
    if session["state"] != "RUNNING" or not (found == asked or asked.partition("@")[0].endswith(f"/{found}")):
        say(f"fairy: {session['name']} was not swapped: {session.get('why')}")
        raise typer.Exit(FAILED)
    if not as_json:
        print(f"{safe(session['name'])} runs {safe(found)}")


def _commit(ctx: typer.Context, name: Name, image: Image, as_json: AsJson = False) -> None:
    """Make an image of a session as it is now, without its home. Later sessions can start from it."""
    with connect(ctx) as fairy:
        made = fairy.commit(name, image)
    if as_json:
        print_json(made)
        return
    print(f"{safe(made['name'])}: {show_size(made['size_bytes'])}, made from {safe(made['made_from'])}")
    for line in made["packages"][:PACKAGES_SHOWN]:
        print(f"  {safe(line)}")
    if len(made["packages"]) > PACKAGES_SHOWN:
        print(f"  and {len(made['packages']) - PACKAGES_SHOWN} more: fairy image show {safe(made['name'])}")
    if made["state"] == "waiting":
        print("You may use it now; others once an admin has approved it (fairy image approve).")


keep = one_command(_keep, "fairy keep brave-otter 2h")
resume = one_command(_resume, "fairy resume brave-otter")
swap = one_command(_swap, "fairy swap brave-otter pytorch/pytorch:2.7.0-cuda12.6-cudnn9-runtime")
commit = one_command(_commit, "fairy commit brave-otter kim/with-apex:1")
