"""Advice on real programs on a real GPU: each does one thing wrong, and is told that and nothing else. Skipped where there is no GPU.

All of it takes about twelve minutes: `-k idle` and `-k busy` are its two halves. With FAIRY_TEST_RECORDS=FOLDER, what was read of each is
written there, for the labelled set of tests/insight.
"""
import json
import os
from pathlib import Path

import pytest
from gpu_insight_workloads import BUSY, IDLE, Workload
from gpu_scene import gpu_server, real_gpu

from gpufairy.client import Fairy
from gpufairy.core.insight import Code
from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

WINDOW = "[advice]\nwindow = '2m'\n[reclaim]\nidle_after = 'off'\n"
LIMIT_S = 240


@pytest.fixture(scope="module")
def gpu():
    return real_gpu()


@pytest.fixture(scope="module")
def fairy(gpu):
    with gpu_server(ssh=False, more=WINDOW) as (live, _):
        client = live.client()
        client.set_share(gpu.uuid, None, "time")  # parts of it are counted, and nobody is in another's way
        yield client


def submitted(fairy: Fairy, work: Workload) -> None:
    command = ["sh", "-c", f"LD_LIBRARY_PATH=/mnt/nvidia/lib64 exec python3 -c '{work.program}'"]
    body = {"name": work.name, "kind": work.kind, "gpus": work.gpus, "cpus": work.cpus, "memory": work.memory, "command": command}
    fairy.submit({**body, "mounts": ["nvidia", "torch"], "env": {"PYTHONPATH": "/mnt/torch"}})


def told(fairy: Fairy, work: Workload) -> set[Code]:
    """Waits until it is told what it should be, and says all that it is told then."""
    def found() -> set[Code]:
        session = fairy.session(work.name)
        assert session["state"] == "RUNNING", session["why"]
        codes = {Code(item["code"]) for item in fairy.advice(work.name)["items"]}
        return codes if codes & work.wanted else set()

    try:
        return until(found, f"advice on {work.name}", LIMIT_S)
    finally:
        record(fairy, work)


def record(fairy: Fairy, work: Workload) -> None:
    session, read = fairy.session(work.name), fairy.session_readings(work.name, step="10s")
    means = {name: column["mean"] for name, column in read["columns"].items()}
    gpus = [fairy.readings("gpu", gpu["uuid"], since="15m", step="10s")["columns"] for gpu in session["seat"]["gpus"]]
    on_gpus = [{name: column["mean"][-len(read["times"]) :] for name, column in columns.items()} for columns in gpus]
    known = {name: mean(values) for name, values in means.items()}
    print(work.name, json.dumps(known), json.dumps([{name: mean(values) for name, values in one.items()} for one in on_gpus]))
    for item in fairy.advice(work.name)["items"]:
        print("  ", item["code"], item["confidence"], item["sentence"], item["next"])
    if folder := os.environ.get("FAIRY_TEST_RECORDS"):
        seat = session["seat"]
        facts = {
            "is_batch": session["kind"] == "batch", "gpus": seat["gpu_equivalents"], "cpus": seat["cpus"], "memory_bytes": seat["memory_bytes"],
            "gpu_memory_bytes": sum(gpu["memory_bytes"] for gpu in seat["gpus"]), "whole": work.gpus == "1", "wanted": sorted(work.wanted),
            "may": sorted(work.may),
        }  # fmt: skip
        Path(folder, f"h200_{work.name.replace('-', '_')}.json").write_text(json.dumps({"step_s": 10, "facts": facts, "columns": means, "gpus": on_gpus}) + "\n")


def mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 4) if known else None


@pytest.mark.parametrize("work", BUSY, ids=lambda work: f"busy-{work.name}")
def test_a_program_that_computes_is_told_what_holds_it_up_and_nothing_else(fairy, work):
    submitted(fairy, work)
    wait_for_state(fairy, work.name, "RUNNING", limit_s=60)
    try:
        codes = told(fairy, work)
    finally:
        fairy.stop(work.name)
        wait_for_state(fairy, work.name, "ENDED", limit_s=60)
    assert codes - work.may - work.wanted == set()


@pytest.fixture(scope="module")
def idle_ones(fairy):
    for work in IDLE:
        submitted(fairy, work)
    for work in IDLE:
        wait_for_state(fairy, work.name, "RUNNING", limit_s=60)
    yield IDLE
    for work in IDLE:
        fairy.stop(work.name)
    for work in IDLE:
        wait_for_state(fairy, work.name, "ENDED", limit_s=60)


@pytest.mark.parametrize("work", IDLE, ids=lambda work: f"idle-{work.name}")
def test_a_program_that_holds_more_than_it_uses_is_told_so_and_nothing_else(fairy, idle_ones, work):
    codes = told(fairy, work)
    assert codes - work.may - work.wanted == set()
