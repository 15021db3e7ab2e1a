"""`fairy start`: an interactive session, until it is ready."""
import typer

from gpufairy.cli import options as o
from gpufairy.cli.exits import FAILED, INTERRUPTED, say
from gpufairy.cli.follow import Follower
from gpufairy.cli.options import connect, one_command
from gpufairy.cli.run import submit
from gpufairy.cli.status_line import StatusLine
from gpufairy.cli.wish import wish
from gpufairy.cli.words import node_of, print_json, share_notes, write_raw
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe


def _start(
    ctx: typer.Context,
    *,
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
    """Start an interactive session and wait until it is ready.

    Ctrl-C leaves it in the queue; --detach does not wait at all.
    """
    body = wish(
        "interactive", [], env, priority, gpus=gpus, gpu_kind=gpu_kind, gpu_memory=gpu_memory, cpus=cpus, memory=memory, image=image,
        name=name, time=time, mounts=mount, preset=preset, team=team, pool=pool, after=after, retry=retry, ports=port, workdir=workdir,
        together=together or None, preemptible=preemptible or None,
    )  # fmt: skip
    with connect(ctx) as fairy:
        sessions = submit(fairy, body, count)
        if not detach:
            line = StatusLine()
            try:
                sessions = [Follower(fairy, write_raw, line).to_running(session) for session in sessions]
            except KeyboardInterrupt:
                line.say("left waiting: " + ", ".join(session["name"] for session in sessions))
                raise typer.Exit(INTERRUPTED) from None
    _show(sessions, as_json=as_json, counted=count is not None)
    if any(session["state"] == "ENDED" for session in sessions):
        raise typer.Exit(FAILED)


def _show(sessions: list[Record], *, as_json: bool, counted: bool) -> None:
    if as_json:
        print_json({"items": sessions} if counted else sessions[0])
        return
    for session in sessions:
        print(safe(session["name"]))
        if session["state"] == "ENDED":
            say(f"fairy: {session['name']} {session.get('outcome')}: {session.get('why') or 'no reason is known'}")
        elif session["state"] == "RUNNING":
            say(f"{session['name']} is ready on {node_of(session)}")
    for note in dict.fromkeys(note for session in sessions for note in share_notes(session)):
        say(note)


start = one_command(_start, "fairy start --gpus 0.5 --time 8h")
