"""Starting a session in a container, beside bare `docker run -d` of the same image in the same run."""
import subprocess
import time

from bench.figures import Figure, Report, percentile
from bench.lab import IMAGE, Lab, lab

ROUNDS = 20


def measure() -> Report:
    ours, theirs, same = [], [], []
    bridge = ("--network", "bench")
    with lab() as here, here.server.client() as fairy:
        session_start(fairy, 0)  # the image is looked into once
        for number in range(1, ROUNDS + 1):
            ours.append(session_start(fairy, number))
            theirs.append(docker_run(here, *bridge))
            same.append(docker_run(here, *bridge, *AS_OURS))
    median = [percentile(taken, 0.5) for taken in (ours, theirs, same)]
    note = "both on a bridge, as docker run has it without a word"
    return Report("start", [
        milliseconds(f"submit to RUNNING, median of {ROUNDS}", median[0], "docker run -d", median[1]),
        milliseconds("the same beside docker run with limits", median[0], "docker run --memory …", median[2]),
        Figure("times bare docker run", median[0] / median[1], "x", goal=1.15, higher_is_better=False, note=note),
        milliseconds("submit to RUNNING, slowest", max(ours), "docker run -d", max(theirs)),
    ])  # fmt: skip


def milliseconds(what: str, seconds: float, peer: str, peer_s: float) -> Figure:
    return Figure(what, seconds * 1000, "ms", higher_is_better=False, peer=peer, peer_value=peer_s * 1000)


AS_OURS = ("--memory", "1g", "--cpus", "1", "--pids-limit", "4096", "--cap-drop", "ALL", "--init")


def session_start(fairy, number: int) -> float:
    began = time.monotonic()
    session = fairy.submit({"name": f"start-{number}", "kind": "interactive", "gpus": "0", "cpus": 1, "memory": "1GiB"})
    while session["state"] != "RUNNING":
        assert session["state"] != "ENDED", session["why"]
        session = fairy.wait(session["name"], session["revision"], 10)
    took = time.monotonic() - began
    fairy.stop(session["name"])
    while (session := fairy.session(session["id"]))["state"] != "ENDED":
        session = fairy.wait(session["id"], session["revision"], 10)
    return took


def docker_run(here: Lab, *options: str) -> float:
    docker = ["docker", "-H", f"unix://{here.daemon.socket}"]
    if options:
        subprocess.run([*docker, "network", "create", "bench"], capture_output=True, check=False)
    began = time.monotonic()
    made = subprocess.run([*docker, "run", "-d", *options, IMAGE, "sleep", "1000"], capture_output=True, text=True, check=True)
    took = time.monotonic() - began
    subprocess.run([*docker, "rm", "-f", made.stdout.strip()], capture_output=True, check=True)
    return took
