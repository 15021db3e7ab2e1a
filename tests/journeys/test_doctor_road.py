"""`fairy doctor` as an admin types it: on a bare machine, beside a server, with a driver that hangs, and mending what is broken."""
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.ports import free_port
from bench.server import ROOT, LiveServer

from fake_nvml import FakeGpu, FakeMachine, FakeNvml
from gpufairy.core.doctor_checks import CHECKS
from gpufairy.devices.mps_folder import pipe_folder
from gpufairy.devices.mps_note import MpsNote, write_note

pytestmark = pytest.mark.slow
GPU = "GPU-11111111-2222-3333-4444-555555555555"


class Box:
    """A machine on which no server was ever started."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRY_", "XDG_", "KUBE"))}
        self.env = {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}

    def doctor(self, *options: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpufairy", "doctor", "--data", str(self.data), *options]
        return subprocess.run(command, env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=60, check=False)

    def found(self, *options: str, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
        done = self.doctor("--json", *options, env=env)
        assert done.returncode in (0, 1), done.stderr
        return {one["check"]: one for one in json.loads(done.stdout)}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_on_a_bare_machine_every_check_says_something_and_the_exit_code_follows(box: Box):
    done = box.doctor("--json")
    found = json.loads(done.stdout)
    assert [one["check"] for one in found] == list(CHECKS)
    assert all(set(one) >= {"check", "ok", "found", "fix"} and one["found"] and one["why"] for one in found)
    assert done.returncode == int(any(one["ok"] is False for one in found))
    by_check = {one["check"]: one["verdict"] for one in found}
    assert (by_check["python"], by_check["server"], by_check["data-folder"], by_check["database"]) == ("ok", "skipped", "ok", "skipped")
    assert not box.data.exists(), "who only looks makes nothing"


def test_people_see_what_is_wrong_last_with_its_lines(box: Box):
    box.data.mkdir(mode=0o777)
    box.data.chmod(0o777)
    done = box.doctor()
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("◆ data-folder"))
    assert lines[at + 1 : at + 3] == ["    It holds users' homes, keys and the database.", f"      chmod o-rwx {box.data}"]
    assert next(place for place, line in enumerate(lines) if line.startswith("● python")) < at
    assert lines[-1] == "Some of it `fairy doctor --fix` can mend."


def test_what_is_broken_is_mended_and_told_before_and_after(box: Box):
    (box.data / "ssh").mkdir(parents=True)
    (box.data / "ssh" / "host_rsa").write_text("key")
    for path in (box.data, box.data / "ssh", box.data / "ssh" / "host_rsa"):
        path.chmod(0o755)
    names = ("--only", "data-folder,secrets")
    before = box.found(*names)
    assert before["data-folder"]["verdict"] == "warn"
    after = box.found("--fix", "--yes", *names)
    assert (after["data-folder"]["before"], after["data-folder"]["verdict"]) == ("warn", "ok")
    assert after["data-folder"]["did"] == f"closed {box.data} to others (mode 750)"
    assert stat.S_IMODE(box.data.stat().st_mode) == 0o750
    assert after["secrets"]["ok"]
    assert box.found("--fix", *names)["data-folder"].get("did") is None, "nothing is left to mend"
    box.data.chmod(0o755)
    told = box.doctor("--fix", *names).stdout
    assert "mended data-folder: closed" in told
    assert "  warn → ok: " in told


def test_pipes_of_a_dead_mps_daemon_are_removed_and_nothing_else(box: Box, tmp_path: Path):
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((FakeGpu(uuid=GPU),)))
    folder = box.data / "mps"
    (folder / GPU).mkdir(parents=True)
    write_note(folder / GPU, MpsNote(GPU, 4_000_000, 1))
    (folder / GPU / "former_compute_mode").write_text("0")
    pipe = pipe_folder(folder, GPU)
    pipe.mkdir(parents=True, exist_ok=True)
    (pipe / "control").touch()
    found = box.found("--only", "mps", env=fake.env)["mps"]
    assert (found["verdict"], found["fixable"]) == ("warn", True), found
    after = box.found("--fix", "--only", "mps", env=fake.env)["mps"]
    assert after["did"] == f"removed {pipe}"
    assert not pipe.exists()
    assert (folder / GPU / "former_compute_mode").exists(), "what the next server needs to put right stays"


def test_a_driver_that_hangs_is_told_in_time_and_all_else_is_looked_at(box: Box, tmp_path: Path):
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((FakeGpu(),), hang=("nvmlDeviceGetName",)))
    began = time.monotonic()
    found = box.found(env=fake.env)
    assert time.monotonic() - began < 40
    assert found["nvml"]["verdict"] == "bad"
    assert "no answer within 12 s" in found["nvml"]["found"]
    assert found["disk"]["ok"] is not None


def test_a_guide_prints_its_path_of_reasoning(box: Box, tmp_path: Path):
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((FakeGpu(mig=True),)))
    told = box.doctor("--only", "mig-not-seen", env=fake.env)
    assert told.returncode == 1
    assert "● Does the driver answer?" in told.stdout
    assert "◆ Are there instances? GPU 0 is in MIG mode without instances" in told.stdout
    assert "fairy mig show" in told.stdout
    assert [line for line in told.stdout.splitlines() if "Are their device files here?" in line] == [], "it ends where the trouble is"


def test_a_damaged_database_is_seen_and_the_way_back_told(box: Box):
    box.data.mkdir(mode=0o700)
    (box.data / "fairy.db").write_bytes(b"this is no database, and never was one. " * 200)
    found = box.found("--only", "database")["database"]
    assert found["ok"] is False
    assert "fairy restore" in found["fix"]


def test_a_check_that_there_is_not_is_refused_with_the_nearest(box: Box):
    done = box.doctor("--only", "wrong-pid")
    assert done.returncode == 4
    assert "did you mean wrong-pids?" in done.stderr
    assert "fairy doctor --only no-metrics" in box.doctor("-h").stdout


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory):
    settings = f"[node]\nname = 'box'\n[ssh]\nport = {free_port()}\n"
    with LiveServer(tmp_path_factory.mktemp("doctor"), settings, ssh=True, options=("--simulate", "1xA100-40GB")) as made:
        yield made


def test_beside_a_server_its_ports_and_its_database_are_its_own(live: LiveServer):
    done = live.fairy("doctor", "--json")
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert len(found) == len(json.loads(done.stdout)), "one host, one finding a check"
    assert found["server"]["found"].endswith("answers")
    assert found["port-http"]["found"] == f"our server has port {live.port} for page and API"
    assert found["port-ssh"]["found"].startswith("our server has port")
    assert (found["database"]["found"], found["ssh-keys"]["found"]) == ("the database is sound", "2 host keys for SSH are there")
    assert (found["data-folder"]["ok"], found["secrets"]["ok"]) == (True, True)


def test_the_servers_own_metrics_are_found(live: LiveServer):
    found = json.loads(live.fairy("doctor", "--json", "--only", "no-metrics").stdout)[0]
    asked = {step["asks"]: step for step in found["steps"]}
    assert asked["Does a collector run and answer?"]["verdict"] == "ok"
    assert asked["Did it read all that it should?"]["verdict"] == "ok", found


def test_admins_alone_ask_the_server_about_its_host(live: LiveServer):
    told = live.client().doctor()
    assert {one["where"] for one in told["items"]} == {"box"}
    assert {one["check"] for one in told["items"]} == set(CHECKS) - {"server", "python"}
    admin = live.client()
    admin.add_user({"name": "ann"})
    token = admin.create_token({"user": "ann"})["token"]
    (live.folder / "ann").write_text(token)
    done = live.fairy("--server", live.url, "--token-file", str(live.folder / "ann"), "doctor", "--json", "--only", "server")
    assert json.loads(done.stdout)[0]["verdict"] == "ok", "who is no admin still hears that it answers"


def test_a_server_that_is_gone_is_told(live: LiveServer):
    (live.folder / "token").write_text(live.token)
    done = live.fairy("--server", f"http://127.0.0.1:{free_port()}", "--token-file", str(live.folder / "token"), "doctor", "--only", "server")
    assert done.returncode == 1
    assert "was not heard" in done.stdout


def test_no_token_is_told(live: LiveServer):
    live.fairy("doctor", "--json")
    told = live.fairy("doctor").stdout + live.fairy("doctor", "--json").stdout + live.log
    assert live.token not in told


def test_what_was_found_last_is_told_without_a_look_and_outlives_a_restart(live):
    live.client().doctor()
    first = live.client().doctor(last=True)
    live.stop()
    live.start()
    assert live.client().doctor(last=True)["at"] == first["at"]
    done = live.fairy("doctor", "--last", "--json", "--only", "disk")
    assert [one["check"] for one in json.loads(done.stdout)] == ["disk"], done.stderr
    assert live.fairy("doctor", "--last").stdout.startswith("Looked at ")
