"""What is sent to POST /sessions, and the same fields in a session file. Amounts come as people wrote them; they are parsed here alone."""
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from gpufairy.core.amounts import parse_cpus, parse_duration, parse_size, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.image import image_name
from gpufairy.core.names import RESERVED_ENV, label, session_name
from gpufairy.core.priority import parse_priority
from gpufairy.core.session import Request, SessionKind
from gpufairy.core.share import ONE_GPU, Share, ShareKind, parse_share
from gpufairy.wire.read import Strict

MOST_COPIES = 1000
MOST_TOGETHER = 256  # each look at them is a look at every node for every one
MOST_STOPS = 10_000
MOST_RETRIES = 100
LONGEST_TEXT = 4096
LEAST_MEMORY = 2**20  # less is a number without its unit
MOST_WORDS = 10_000
LONGEST_COMMAND = 128 * 1024  # bytes in all: what Linux takes as one argument
MOST_ENV = 256

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Amount = Text | int | float


class SubmitBody(Strict):
    kind: Text | None = None
    name: Text | None = None
    gpus: Amount | None = None
    gpu_kind: Text | None = None
    gpu_memory: Amount | None = None
    cpus: Amount | None = None
    memory: Amount | None = None
    image: Text | None = None
    command: str | list[str] | None = None
    time: Amount | None = None
    env: Annotated[dict[Text, str | int | float | bool], Field(max_length=MOST_ENV)] | None = None
    mounts: Annotated[list[Text], Field(max_length=64)] | None = None
    ports: Annotated[list[int], Field(max_length=64)] | None = None
    preset: Text | None = None
    team: Text | None = None
    priority: int | Text | None = None
    pool: Text | None = None
    after: Annotated[list[Text], Field(max_length=100)] | Text | None = None
    retry: int | None = None
    workdir: Text | None = None
    count: int | None = None
    together: bool | None = None
    preemptible: bool | None = None

    def filled_from(self, preset: "SubmitBody") -> "SubmitBody":
        """What the user left open, as the preset has it."""
        return SubmitBody.model_validate({**preset.model_dump(exclude_none=True), **self.model_dump(exclude_none=True)})


class StopBody(Strict):
    names: Annotated[list[Text], Field(max_length=MOST_STOPS)] = []  # noqa: RUF012 - frozen with the model
    all: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """A body that was understood: the request, and what is said about it beside."""

    kind: SessionKind
    request: Request  # `after` still holds names; whoever knows the sessions puts ids there
    name: str | None
    team: str | None
    priority: int
    count: int | None
    together: bool = False  # all of them start at once, or none


def understood(body: SubmitBody, has_gpus: bool) -> Submission:
    """Raises BadInput naming the field. `has_gpus`: without a word about GPUs, one whole GPU where there is one."""
    command, share = read_command(body.command), read_share(body.gpus, has_gpus)
    kind = read_kind(body.kind, command)
    after = (body.after,) if isinstance(body.after, str) else tuple(body.after or ())
    request = Request(
        share=share,
        command=command,
        cpus_milli=None if body.cpus is None else parse_cpus(str(body.cpus)),
        memory_bytes=None if body.memory is None else read_memory(str(body.memory)),
        gpu_kind=None if body.gpu_kind is None else label(body.gpu_kind, "gpu_kind"),
        pool=None if body.pool is None else label(body.pool, "pool"),
        image=None if body.image is None else image_name(body.image),
        time_limit=None if body.time is None else parse_duration(str(body.time)),
        env=read_env(body.env or {}),
        mounts=tuple(label(mount, "mounts") for mount in body.mounts or ()),
        ports=tuple(within(port, 1, 65535, "ports") for port in body.ports or ()),
        workdir=None if body.workdir is None else no_nul(body.workdir, "workdir"),
        retries=within(body.retry or 0, 0, MOST_RETRIES, "retry"),
        after=tuple(session_name(name, "after") for name in after),
        gpu_memory_bytes=None if body.gpu_memory is None else read_gpu_memory(str(body.gpu_memory), share),
        preemptible=bool(body.preemptible),
    )
    return Submission(
        kind=kind,
        request=request,
        name=None if body.name is None else session_name(body.name),
        team=None if body.team is None else label(body.team, "team"),
        priority=parse_priority(body.priority or 0),
        count=None if body.count is None else within(body.count, 1, MOST_COPIES, "count"),
        together=read_together(body),
    )


def read_together(body: SubmitBody) -> bool:
    if body.together and (body.count or 1) > MOST_TOGETHER:
        raise BadInput(f"together: {body.count} sessions, at most {MOST_TOGETHER} start at once", "Ask for fewer, or leave out together.")
    if body.together and (body.count or 1) < 2:
        raise BadInput(f"together: goes with a count of 2 or more, found {body.count or 'none'}", "Ask for --count 4 --together, say.")
    return bool(body.together)


def read_kind(kind: str | None, command: tuple[str, ...]) -> SessionKind:
    if kind is None:
        return SessionKind.BATCH if command else SessionKind.INTERACTIVE
    if kind not in set(SessionKind):
        raise BadInput(f"kind: found {shown(kind)}", "Write batch or interactive, or leave it out.")
    if kind == SessionKind.BATCH and not command:
        raise BadInput("command: a batch session needs one, found none", "Write what to run, such as [python, train.py].")
    return SessionKind(kind)


def read_share(gpus: Amount | None, has_gpus: bool) -> Share:
    if gpus is None:
        return ONE_GPU if has_gpus else parse_share("0")
    return parse_share(str(gpus))


def read_command(command: str | list[str] | None) -> tuple[str, ...]:
    """A list is run as it is; a line of text is what a shell would run."""
    if command is None:
        return ()
    words = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
    if not words or not words[0]:
        raise BadInput("command: found an empty one", "Write what to run, such as [python, train.py].")
    if len(words) > MOST_WORDS:
        raise BadInput(f"command: {len(words):,} words, at most {MOST_WORDS:,}", "Put it into a script and run that.")
    if sum(len(word.encode(errors="surrogatepass")) + 1 for word in words) > LONGEST_COMMAND:
        raise BadInput(f"command: longer than {LONGEST_COMMAND // 1024} KiB", "Put it into a script and run that.")
    return tuple(no_nul(word, "command") for word in words)


def read_memory(text: str, what: str = "memory") -> int:
    size = parse_size(text, what)
    if size < LEAST_MEMORY:
        raise BadInput(f"{what}: {shown(text)} is less than 1 MiB", "Write a number and a unit, such as 512MiB, 16GiB or 16G.")
    return size


def read_gpu_memory(text: str, share: Share) -> int:
    if share.kind not in (ShareKind.FRACTION, ShareKind.FGPU):
        found = f"gpu_memory: goes with a fraction of a GPU, found gpus {share}"
        raise BadInput(found, "Ask for --gpus 0.5 --gpu-memory 20GiB; whole GPUs and MIG instances come with all of their memory.")
    return read_memory(text, "gpu_memory")


def read_env(env: dict[str, str | int | float | bool]) -> tuple[tuple[str, str], ...]:
    for name, value in env.items():
        if not name.isascii() or not name.isidentifier():
            raise BadInput(f"env: {shown(name)} is no name of a variable", "Use letters, figures and _, not beginning with a figure.")
        if name.startswith(RESERVED_ENV):
            raise BadInput(f"env: {name} is set by gpufairy itself", "Leave it out; the session is given the right value.")
        if len(str(value)) > 32768:
            raise BadInput(f"env: the value of {name} is longer than 32 KiB", "Put it into a file.")
    return tuple((name, no_nul(str(value), f"env {name}")) for name, value in env.items())


def within(number: int, least: int, most: int, what: str) -> int:
    if not least <= number <= most:
        raise BadInput(f"{what}: {shown(str(number))} is not between {least} and {most}", f"Write a number from {least} to {most}.")
    return number


def no_nul(text: str, what: str) -> str:
    if "\0" in text or (not text.isascii() and any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)):
        raise BadInput(f"{what}: {shown(text)} holds a character that no command can take", "Take it out.")
    return text
