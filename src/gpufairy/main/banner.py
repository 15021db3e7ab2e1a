"""The block that `fairy up` prints: where it is, what it found, what to try."""
import sys
from urllib.parse import urlsplit

from gpufairy import __version__
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.node import Node
from gpufairy.engines.contract import Engine
from gpufairy.main.serve import Setup

TRY = (
    ("fairy run --gpus 0.5 -- sh -c 'echo $FAIRY_GPUS; date'", "run something on half a GPU"),
    ("fairy ps -a", "see your sessions"),
    ("fairy free", "see what is free"),
)


def banner(setup: Setup, engine: Engine, user: str, sign_in: str, ssh_port: int | None) -> str:
    host = urlsplit(setup.url).hostname
    rows = [
        ("page", f"{sign_in}   (signs you in, once)"),
        ("ssh", f"ssh -p {ssh_port} {user}@{host}   (first: fairy key add ~/.ssh/id_ed25519.pub)" if ssh_port else "off"),
        ("data", str(setup.data)),
        ("you", f"{user}, admin; signed in on the command line"),
        ("node", f"{setup.node.name}: {show_cpus(setup.node.cpus_milli)} CPUs, {show_size(setup.node.memory_bytes)}"),
        ("GPUs", gpu_words(setup.node)),
        ("engine", f"{engine.name}. Isolation: {engine.isolation}"),
    ]
    lines = [f"gpufairy {__version__} is up.", ""]
    lines += [f"  {name:<7} {text}" for name, text in rows]
    lines += ["", "Try, in another terminal:"]
    lines += [f"  {setup.fairy_command} {command.removeprefix('fairy '):<60} # {what}" for command, what in TRY]
    return "\n".join([*lines, "", "Ctrl-C stops the server; sessions go on.", ""])


def gpu_words(node: Node) -> str:
    kinds: dict[str, int] = {}
    for gpu in node.gpus:
        words = gpu.kind + (", cut by MIG" if gpu.mig is not None else "") + (" (simulated)" if gpu.simulated else "")
        kinds[words] = kinds.get(words, 0) + 1
    return "; ".join(f"{count} x {words}" for words, count in kinds.items()) or "none"


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
