"""The block that `fairy up` prints: where it is, what it found, what to try."""
from urllib.parse import urlsplit

from gpufairy import __version__
from gpufairy.core.amounts import show_cpus, show_size
from gpufairy.core.node import Node
from gpufairy.engines.contract import Engine
from gpufairy.main.serve import Setup

TRY_A_GPU = ("fairy run --gpus 0.5 -- sh -c 'echo $FAIRY_GPUS; date'", "run something on half a GPU")
TRY_NO_GPU = ("fairy run -- sh -c 'echo $FAIRY_SESSION; date'", "run something")
TRY = (
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
    if engine.shelf is not None:
        there = "on this machine" if engine.shelf.fetches else "on a node"
        fetched = "fetched when first used" if setup.config.images.pull else f"must be {there}"
        rows.append(("image", f"{setup.config.images.default}, unless a session names another ({fetched})"))
    first = TRY_A_GPU if setup.node.gpus else TRY_NO_GPU
    lines = [f"gpufairy {__version__} is up.", ""]
    lines += [f"  {name:<7} {text}" for name, text in rows]
    lines += ["", "Try, in another terminal:"]
    lines += [f"  {setup.fairy_command} {command.removeprefix('fairy '):<60} # {what}" for command, what in (first, *TRY)]
    return "\n".join([*lines, "", "Ctrl-C stops the server; sessions go on.", ""])


def gpu_words(node: Node) -> str:
    kinds: dict[str, int] = {}
    for gpu in node.gpus:
        words = gpu.kind + (", cut by MIG" if gpu.mig is not None else "") + (" (simulated)" if gpu.simulated else "")
        kinds[words] = kinds.get(words, 0) + 1
    return "; ".join(f"{count} x {words}" for words, count in kinds.items()) or "none"
