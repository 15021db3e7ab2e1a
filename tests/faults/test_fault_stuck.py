"""A process that cannot be killed: its GPU stays held and is shown as stuck, and the admin is told. Frozen by the kernel's own freezer, which
holds back even SIGKILL."""
import contextlib
import os
from pathlib import Path

import pytest
from bench.server import LiveServer

from waits import until, wait_for_state

pytestmark = [pytest.mark.system, pytest.mark.slow]

FREEZER = Path("/sys/fs/cgroup/freezer")  # of cgroup v1: a frozen process of v2 can be killed


@pytest.fixture
def freezer():
    if not (FREEZER / "tasks").exists() or os.geteuid() != 0:
        pytest.skip("a freezer that holds back SIGKILL is there on machines with cgroup v1, and for root alone")
    group = FREEZER / f"fairy-test-{os.getpid()}"
    group.mkdir()
    yield group
    (group / "freezer.state").write_text("THAWED")
    for pid in (group / "tasks").read_text().split():
        with contextlib.suppress(OSError):
            (FREEZER / "tasks").write_text(pid)
    until(lambda: removed(group), "the group to go")


@contextlib.contextmanager
def frozen(group: Path, pid: str):
    (group / "tasks").write_text(pid)
    (group / "freezer.state").write_text("FROZEN")
    try:
        yield
    finally:
        (group / "freezer.state").write_text("THAWED")


def removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def test_the_gpu_of_a_process_that_cannot_be_killed_stays_held_and_somebody_is_told(tmp_path, freezer):
    with LiveServer(tmp_path / "fairy", "[policy]\nstop_grace = '1s'\n", ("--simulate", "1xA100-40GB")) as server:
        client = server.client()
        client.submit({"name": "stuck", "gpus": "1", "command": ["sh", "-c", "echo $$ > $HOME/pid; exec sleep 3600"]})
        wait_for_state(client, "stuck", "RUNNING")
        [path] = until(lambda: [path for path in (server.data / "sessions" / "home").glob("*/pid") if path.read_text().strip()], "its pid")
        pid = path.read_text().strip()
        with frozen(freezer, pid):
            client.stop("stuck")
            until(lambda: (s := client.session("stuck"))["state"] == "STOPPING" and "cannot be ended" in s["why"], "it to be told as stuck", 40)
            assert Path(f"/proc/{pid}").exists()
            assert client.gpus()[0]["free_share"] == 0.0, "its GPU was handed on"
            client.submit({"name": "next", "gpus": "1", "command": ["true"]})
            assert client.session("next")["state"] == "PENDING"
            until(lambda: [one for one in client.events() if one["what"] == "leak_found" and "cannot be ended" in one["why"]], "the admin to be told", 90)
        wait_for_state(client, "stuck", "ENDED")
        assert wait_for_state(client, "next", "ENDED")["outcome"] == "done"
