"""`fairy pool`: what is asked of the server, and what of its answer is printed."""
import json

POOL = {
    "name": "train-gpu", "cloud": "eks", "cluster": "lab", "state": "making", "trouble": "its node group is being made", "instance": "g5.xlarge",
    "gpu_kind": "A10", "gpus": 1, "gpu_memory_bytes": 24 * 2**30, "cpus": 4.0, "memory_bytes": 16 * 2**30, "min": 0, "max": 4, "nodes": 1, "ready": 1,
    "coming": 1, "boot_s": 180, "boot_learnt": False, "price_hour": 1.006, "price_of": "AWS, August 2026",
    "cost": {"least": "$0.00 an hour", "now": "$1.01 an hour", "most": "$4.02 an hour"}, "made_by": "boss", "made_at": "2026-11-15T08:00:00Z",
}  # fmt: skip
STEPS = [{"what": "EKS node group", "name": "train-gpu", "there": False, "details": {"nodes": "0 to 4"}}, {"what": "NVIDIA device plugin", "name": "x", "there": True, "details": {}}]
ADD = ("pool", "add", "train-gpu", "--cloud", "eks", "--cluster", "lab", "--instance", "g5.xlarge", "--min", "0", "--max", "4")


def test_a_dry_run_shows_every_step_and_the_price(fairy, server):
    server.answers["POST", "/pools"] = {**POOL, "steps": STEPS, "dry_run": True}
    out = fairy(*ADD, "--dry-run").out
    assert "Pool train-gpu: 0 to 4 nodes g5.xlarge, each 1 x A10 (24 GiB), 4 CPUs, 16 GiB." in out
    assert "to make  EKS node group train-gpu: nodes 0 to 4" in out
    assert "there    NVIDIA device plugin x" in out
    assert "It costs $0.00 an hour at rest, and $4.02 an hour at most (AWS, August 2026)." in out
    assert "Nothing was made." in out
    body = server.calls("POST", "/pools")[0].body
    assert body == {"name": "train-gpu", "cloud": "eks", "cluster": "lab", "instance": "g5.xlarge", "min": 0, "max": 4, "dry_run": True}


def test_what_is_under_way_is_told_and_a_price_that_is_not_known(fairy, server):
    unpriced = {"price_hour": None, "price_of": None, "cost": dict.fromkeys(("least", "now", "most"), "price not known")}
    server.answers["POST", "/pools"] = {**POOL, **unpriced, "steps": STEPS, "dry_run": False}
    out = fairy(*ADD, "--gpu-kind", "A10", "--gpus", "1").out
    assert "price not known" in out
    assert "Pool train-gpu is being made. its node group is being made See: fairy pool show train-gpu" in out
    assert server.calls("POST", "/pools")[0].body["gpus"] == 1


def test_pools_are_listed_and_shown_and_read_by_scripts(fairy, server):
    server.answers["GET", "/pools"] = {"items": [POOL], "next": None}
    server.answers["GET", "/pools/train-gpu"] = {**POOL, "steps": STEPS}
    out = fairy("pool", "list").out
    assert "1 of 4, 1 coming" in out
    assert "3 min (guess)" in out
    assert json.loads(fairy("pool", "list", "--json").out)["items"][0]["name"] == "train-gpu"
    assert "EKS node group" in fairy("pool", "show", "train-gpu").out


def test_a_pool_is_removed(fairy, server):
    server.answers["DELETE", "/pools/train-gpu"] = {**POOL, "state": "removing", "trouble": None}
    assert "Pool train-gpu is being removed." in fairy("pool", "remove", "train-gpu").out
