"""`fairy run`: a job from submit to its exit code."""
import uuid
from typing import Annotated

import typer

from gpufairy.cli import options as o
from gpufairy.cli.attend import attend
from gpufairy.cli.exits import say
from gpufairy.cli.options import connect, one_command
from gpufairy.cli.wish import at_home, wish
from gpufairy.cli.words import print_json
from gpufairy.client import Fairy
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput


def submit(fairy: Fairy, body: Record, count: int | None) -> list[Record]:
    """What was made of it, with what the server has to say about it said."""
    answer = fairy.submit(at_home(body, fairy), count, uuid.uuid4().hex)
    sessions: list[Record] = answer["items"] if count is not None else [answer]
    for note in dict.fromkeys(note for session in sessions for note in session.get("notes") or []):
        say(f"fairy: {note}")
    return sessions


def _run(
    ctx: typer.Context,
    *,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="What to run, with its own options.")],
    gpus: o.Gpus = None,
    gpu_kind: o.GpuKind = None,
    gpu_memory: o.GpuMemory = None,
    cpus: o.Cpus = None,
    memory: o.Memory = None,
    image: o.Image = None,
    name: o.NewName = None,
    count: o.Count = None,
    together: o.Together = False,
    time: o.Time = None,
    env: o.Env = None,
    mount: o.Mount = None,
    preset: o.Preset = None,
    team: o.Team = None,
    priority: o.Priority = None,
    pool: o.Pool = None,
    after: o.After = None,
    retry: o.Retry = None,
    preemptible: o.Preemptible = False,
    port: o.Port = None,
    workdir: o.Workdir = None,
    detach: o.Detach = False,
    as_json: o.AsJson = False,
) -> None:
    """Run a job: wait its turn, show its output, fetch its results, exit with its code.

    Ctrl-C asks whether to stop it; --detach leaves it to run by itself.
    """
    if as_json and not detach:
        raise BadInput("--json goes with --detach: else the job's own output is what is printed", "Add --detach, or leave out --json.")
    body = wish(
        "batch", command, env, priority, gpus=gpus, gpu_kind=gpu_kind, gpu_memory=gpu_memory, cpus=cpus, memory=memory, image=image,
        name=name, time=time, mounts=mount, preset=preset, team=team, pool=pool, after=after, retry=retry, ports=port, workdir=workdir,
        together=together or None, preemptible=preemptible or None,
    )  # fmt: skip
    with connect(ctx) as fairy:
        sessions = submit(fairy, body, count)
        if not detach:
            raise typer.Exit(attend(fairy, sessions))
    if as_json:
        print_json({"items": sessions} if count is not None else sessions[0])
    else:
        print("\n".join(safe(session["name"]) for session in sessions))


run = one_command(_run, "fairy run --gpus 0.5 --time 2h -- python train.py --epochs 3", takes_a_command=True)
