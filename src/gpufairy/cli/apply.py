"""`fairy apply`: sessions from a file."""
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.attend import attend
from gpufairy.cli.exits import say
from gpufairy.cli.options import AsJson, connect, one_command
from gpufairy.cli.run import submit
from gpufairy.cli.session_file import read_sessions
from gpufairy.cli.session_tree import LARGEST_BYTES
from gpufairy.cli.words import print_json
from gpufairy.client import Problem
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput

EXAMPLE = """cat > train.yaml <<END
name: train-bert
gpus: 0.5
time: 8h
command: [python, train.py, --epochs, "3"]
env: {SEED: "1"}
END
fairy apply train.yaml --wait"""


def _apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Session file: .yaml, .yml or .toml; - for YAML from stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Stay with the jobs to their end, as `fairy run` does.")] = False,
    as_json: AsJson = False,
) -> None:
    """Submit what a session file asks for.

    A session with a command is a job; one without is interactive. Several sessions: a `sessions` list, or several YAML documents.
    """
    if wait and as_json:
        raise BadInput("--json and --wait exclude each other: with --wait the jobs' own output is printed", "Leave one of them out.")
    bodies = read_sessions(_read(file), str(file), toml=file.suffix.lower() == ".toml")
    sessions: list[Record] = []
    with connect(ctx) as fairy:
        for body in bodies:
            count = body.pop("count", None)
            try:
                made = submit(fairy, body, count)
            except Problem as problem:
                raise in_file(problem, file, body, sessions) from None
            sessions += made
            if not as_json:
                _say_made(made, wait)
        jobs = [session for session in sessions if session["kind"] == "batch"]
        if wait and jobs:
            raise typer.Exit(attend(fairy, jobs))
    if as_json:
        print_json({"items": sessions})


def in_file(problem: Problem, file: Path, body: Record, made: list[Record]) -> Problem:
    """The server's words, with which session of which file they are about, and what was submitted before it."""
    which = f"session {body['name']}" if body.get("name") else "a session without a name"
    before = f"; submitted before it: {', '.join(session['name'] for session in made)}" if made else ""
    return Problem(problem.status, problem.title, f"{file}, {which}: {problem.detail}{before}", problem.next_step)


def _say_made(made: list[Record], wait: bool) -> None:
    for session in made:
        # With --wait stdout is the jobs' own.
        (say if wait else print)(f"{safe(session['name'])} {safe(session['state'])}")


def _read(file: Path) -> bytes:
    """One byte more than allowed tells that it is too large, without reading all of what may be a disk."""
    if str(file) == "-":
        return sys.stdin.buffer.read(LARGEST_BYTES + 1)
    if file.suffix.lower() not in (".yaml", ".yml", ".toml"):
        raise BadInput(f"{file}: its name ends in neither .yaml, .yml nor .toml", "Rename it, or send YAML to `fairy apply -`.")
    try:
        with file.open("rb") as stream:
            return stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read the session file {file}: {error.strerror}", "Check its name.") from error


apply = one_command(_apply, EXAMPLE)
