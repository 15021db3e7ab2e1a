"""A small lab as one would find it on a weekday: people and teams, sessions that run, wait, failed and were stopped, a booking, a quota."""
from contextlib import contextmanager
from pathlib import Path

from bench.server import LiveServer

from waits import wait_for_state

SETTINGS = """
[node]
cpus = 64
memory = "256GiB"
name = "gpu01"
[presets.small]
gpus = "0.5"
cpus = 4
[presets.whole]
gpus = "1"
time = "8h"
"""
GPUS = "4xA100-40GB,2xH200,1xA100-40GB:mig=3g.20gb+2g.10gb"
TRAINS = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo \"epoch 1 step $i loss 0.$((900 - i % 800))\"; sleep 0.5; done"]
RESTS = ["sleep", "900"]
LITTLE = {"cpus": 2, "memory": "4GiB"}


@contextmanager
def a_lab(folder: Path):
    with LiveServer(folder, SETTINGS, ("--simulate", GPUS), ssh=True) as live:
        admin = live.client()
        for name, team in (("minji", "nlp"), ("jun", "vision"), ("sora", "nlp")):
            admin.add_user({"name": name, "team": team})
        fill(live, {name: live.client(admin.create_token({"user": name})["token"]) for name in ("minji", "jun", "sora")})
        yield live


def fill(live, people) -> None:
    admin, minji, jun, sora = live.client(), people["minji"], people["jun"], people["sora"]
    minji.submit({"name": "train-bert", "gpus": "1", "time": "8h", "command": TRAINS, **LITTLE})
    jun.submit({"name": "segment", "gpus": "2", "time": "3h", "gpu_kind": "A100-40GB", "command": RESTS, **LITTLE})
    sora.submit({"name": "notebook", "gpus": "0.5", "kind": "interactive", "gpu_kind": "A100-40GB", **LITTLE})
    admin.submit({"name": "held", "gpus": "0.5", "time": "2h", "gpu_kind": "A100-40GB", "command": TRAINS, **LITTLE})
    admin.submit({"name": "fails", "gpus": "0.25", "command": ["sh", "-c", "echo 'RuntimeError: CUDA out of memory' >&2; exit 3"], **LITTLE})
    for client, name in ((minji, "train-bert"), (jun, "segment"), (sora, "notebook"), (admin, "held")):
        wait_for_state(client, name, "RUNNING")
    wait_for_state(admin, "fails", "ENDED")
    admin.submit({"name": "waits", "gpus": "4", "time": "1h", "gpu_kind": "A100-40GB", "command": RESTS, **LITTLE})
    minji.submit({"name": "eval", "gpus": "2", "time": "1h", "gpu_kind": "A100-40GB", "command": RESTS, **LITTLE})
    live.fairy("book", "--gpus", "1", "--gpu-kind", "H200", "--from", "in 2h", "--for", "2h", "--team", "nlp", "--title", "CS231n", check=True)
    live.fairy("quota", "set", "team:nlp", "--gpus", "4", check=True)
