"""A page, played from top to bottom on a machine of its own: every command is run, and what the page shows of it is looked for."""
import re
import shlex
import subprocess
import time
from collections.abc import Iterable

from box import Box
from command_words import wrong_with
from pages import Block, Command
from shown_output import missing
from stage import Aid, aid_for, may_be_missing, why_not_run

READS = ("fairy ps", "fairy why", "fairy alerts", "fairy node list", "fairy team list", "fairy quota list")
SOON_S = 40  # a host that was let in just now tells of itself within so long
APPLIED = re.compile(r"fairy apply (?P<file>\S+)")
# What the reader of a program has: a token, and a key that was made once.
PROLOGUE = """import os, pathlib
token = pathlib.Path("/root/docs.token").read_text().strip()
pathlib.Path("my.key").exists() or pathlib.Path("my.key").write_bytes(os.urandom(32))
"""
HOME_SESSION = "ssh -p 8422 minji@gpu01"


def play(box: Box, page: str, blocks: Iterable[Block]) -> list[str]:
    """What went otherwise than the page says, in words; and the rest is played all the same."""
    wrong, file = [], ""
    for block in blocks:
        file = block.text if block.language == "yaml" else file
        for command in block.commands:
            lay_out(box, page, command, file)
            said = play_one(box, page, command)
            wrong += [f"{page}:{command.line}: {command.text}\n{said}"] if said else []
    return wrong


def lay_out(box: Box, page: str, command: Command, file: str) -> None:
    """The session file that is printed above the command that submits it."""
    named = APPLIED.match(command.text)
    if named and file:
        (box.work / named["file"]).write_text(instead(file, aid_for(page, command)))


def play_one(box: Box, page: str, command: Command) -> str | None:
    if why_not_run(command.text) is not None:
        return None if command.program else wrong_with(command.text)
    aid = aid_for(page, command)
    try:
        if aid.before:
            box.done(aid.before)
        said = looked_at(box, command, aid)
        if aid.after:
            box.done(aid.after)
    except subprocess.TimeoutExpired as late:
        return f"it did not end in {late.timeout:.0f} s; it printed {late.stdout!r} {late.stderr!r}"
    except AssertionError as error:
        return f"what should come before or after it: {error}"
    return said


def looked_at(box: Box, command: Command, aid: Aid) -> str | None:
    """Who only reads looks again, as a person does, until what the page shows has come about."""
    until = time.monotonic() + (SOON_S if command.text.startswith(READS) else 0)
    while True:
        result = box.run(typed(command, aid), aid.answers, terminal=aid.terminal)
        said = judged(command, aid, result)
        if said is None or time.monotonic() > until:
            return said


def typed(command: Command, aid: Aid) -> str:
    text = instead(command.text, aid)
    if command.program:
        return f"python - <<'END'\n{PROLOGUE}{text}END"
    return f"{HOME_SESSION} {shlex.quote(text)}" if command.inside or aid.inside else text


def instead(text: str, aid: Aid) -> str:
    for printed, real in aid.instead.items():
        text = text.replace(printed, real)
    return text


def judged(command: Command, aid: Aid, result: subprocess.CompletedProcess[str]) -> str | None:
    printed = result.stdout + "\n" + result.stderr
    fails = any(line.startswith("fairy: ") and "(simulated)" not in line for line in command.shown) or aid.fails
    if (result.returncode != 0) != fails:
        return f"it ended with {result.returncode}:\n{printed[-1500:]}"
    shown = () if aid.other_output and aid.heads is None else command.shown[:aid.heads]
    absent = missing(tuple(line for line in shown if not may_be_missing(line)), printed)
    return f"the page shows what was not printed: {absent}\nprinted was:\n{printed[-1500:]}" if absent else None
