"""MIG as its users meet it: shown, planned, cut by the command line, never under anybody, and by itself for one who waits."""
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.server import LiveServer

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml
from waits import until, wait_for_state

pytestmark = pytest.mark.slow

SETTINGS = "[node]\ncpus = 64\nmemory = '256GiB'\nname = 'box'\n"
SMALL = "+".join(["1g.5gb"] * 7)
ON_DEMAND, CUT, AUTO = (f"GPU-simulated-{index:04}" for index in range(3))
IN_WORDS = {"profile", "start", "size"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    simulated = f"1xA100:mig,1xA100:mig={SMALL},1xA30:mig=1g.6gb+1g.6gb+1g.6gb+1g.6gb"
    with LiveServer(tmp_path_factory.mktemp("fairy"), SETTINGS, ("--simulate", simulated)) as live:
        yield live


def gpu(fairy, uuid: str):
    return next(one for one in fairy.mig() if one["uuid"] == uuid)


def cut(fairy, uuid: str) -> list[tuple[str, int]]:
    return [(one["profile"], one["start"]) for one in gpu(fairy, uuid)["instances"]]


def test_the_cut_is_drawn_with_what_fits_and_what_a_change_costs(server, fairy):
    shown = server.fairy("mig", "show")
    assert shown.returncode == 0
    assert "box GPU 0  A100-40GB simulated  cut on demand" in shown.stdout
    assert "[1g.5gb-] [1g.5gb-] [1g.5gb-]" in shown.stdout
    assert "one more 3g.20gb: 3 idle instances would go" in shown.stdout
    assert server.fairy("mig").stdout == shown.stdout
    told = json.loads(server.fairy("mig", "show", "--json").stdout)["items"]
    assert [one["uuid"] for one in told] == [ON_DEMAND, CUT, AUTO]


def test_a_plan_names_the_fewest_instances_that_would_go_and_changes_nothing(server, fairy):
    before = cut(fairy, CUT)
    done = server.fairy("mig", "plan", "--gpu", CUT, "--want", "3g.20gb", "--json")
    plan = json.loads(done.stdout)
    assert (done.returncode, plan["fits"], len(plan["touched"])) == (0, True, 3)
    assert plan["placements"] == [{"profile": "3g.20gb", "start": 4, "size": 4}]
    assert "3 idle instances go" in server.fairy("mig", "plan", "--gpu", "1", "--want", "3g.20gb").stdout
    assert cut(fairy, CUT) == before


def test_a_plan_for_a_kind_needs_no_server(server):
    away = {**server.env, "FAIRY_URL": "http://127.0.0.1:1", "FAIRY_TOKEN": "none"}
    done = server.fairy("mig", "plan", "--kind", "H200", "--want", "3g.71gb,1g.18gb", "--json", env=away)
    plan = json.loads(done.stdout)
    assert (done.returncode, plan["fits"], plan["touched"]) == (0, True, [])
    assert [set(one) for one in plan["placements"]] == [IN_WORDS, IN_WORDS]
    too_much = server.fairy("mig", "plan", "--kind", "H200", "--want", "4x3g.71gb", "--json", env=away)
    assert json.loads(too_much.stdout)["fits"] is False
    for wrong in (("--kind", "H2000", "--want", "1g.5gb"), ("--kind", "H200", "--want", "3g.20gb"), ("--want", "1g.5gb"), ("--kind", "H200", "--want", "half")):
        refused = server.fairy("mig", "plan", *wrong, env=away)
        assert (refused.returncode, "Traceback" in refused.stderr, "→" in refused.stderr) == (2, False, True)


def test_a_held_instance_is_never_touched_and_its_holder_is_shown(server, fairy, make_user):
    kim = make_user("kim")
    kim.submit({"name": "held", "gpus": "mig:2g.10gb", "command": ["sleep", "600"]})
    wait_for_state(kim, "held", "RUNNING")
    (one,) = gpu(fairy, ON_DEMAND)["instances"]
    assert (one["holder"]["owner"], one["holder"]["session"], one["in_use"]) == ("kim", "held", True)
    assert one["holder"]["since"]
    refused = server.fairy("mig", "apply", "--gpu", ON_DEMAND, "--want", "7g.40gb", "--yes")
    assert refused.returncode == 3
    assert "2g.10gb in use cannot be touched" in refused.stderr
    done = server.fairy("mig", "apply", "--gpu", ON_DEMAND, "--want", "3g.20gb,1g.5gb", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    applied = json.loads(done.stdout)
    assert (applied["changed"], applied["simulated"], applied["touched"]) == (True, True, [])
    assert ("2g.10gb", one["start"]) in cut(fairy, ON_DEMAND)
    assert fairy.session("kim+held")["state"] == "RUNNING"
    assert "held by kim" in server.fairy("mig", "show").stdout
    kim.stop("held")


def test_others_see_who_holds_an_instance_and_not_what_they_call_their_work(fairy, make_user):
    ann, ben = make_user("ann-mig"), make_user("ben-mig")
    ann.submit({"name": "secret-plan", "gpus": "mig:1g.6gb", "command": ["sleep", "600"]})
    wait_for_state(ann, "secret-plan", "RUNNING")
    holder = next(one["holder"] for one in gpu(ben, AUTO)["instances"] if one["holder"])
    assert (holder["owner"], holder["session"]) == ("ann-mig", None)
    assert "secret-plan" not in json.dumps(ben.mig())
    ann.stop("secret-plan")


def test_a_user_may_look_and_plan_and_not_cut(server, fairy, make_user):
    token = fairy.create_token({"user": make_user("lee").me()["name"]})["token"]
    as_lee = {**server.env, "FAIRY_URL": server.url, "FAIRY_TOKEN": token}
    assert server.fairy("mig", "show", env=as_lee).returncode == 0
    assert server.fairy("mig", "plan", "--gpu", CUT, "--want", "3g.20gb", env=as_lee).returncode == 0
    before = cut(fairy, CUT)
    for command in (("apply", "--gpu", CUT, "--want", "7g.40gb", "--yes"), ("auto", "on", CUT)):
        refused = server.fairy("mig", *command, env=as_lee)
        assert (refused.returncode, "→" in refused.stderr) == (3, True)
    assert cut(fairy, CUT) == before


def test_nothing_is_cut_without_a_yes(server, fairy):
    before = cut(fairy, CUT)
    asked = server.fairy("mig", "apply", "--gpu", CUT, "--want", "7g.40gb", stdin=None)
    assert (asked.returncode, cut(fairy, CUT)) == (2, before)
    assert "--yes" in asked.stderr


@pytest.mark.parametrize(("options", "code"), [(("--gpu", "GPU-nowhere", "--want", "1g.5gb"), 4), (("--gpu", CUT, "--want", "3g.71gb"), 2), (("--gpu", "9", "--want", "1g.5gb"), 2)])
def test_mistakes_are_told_in_words(server, options, code):
    done = server.fairy("mig", "apply", *options, "--yes")
    assert (done.returncode, "→" in done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_a_cut_is_an_event_is_read_by_nvidias_names_and_outlives_the_server(server, fairy):
    assert server.fairy("mig", "apply", "--gpu", CUT, "--want", "3g.20gb,3g.20gb", "--yes").stdout == "cut as 2 x 3g.20gb (simulated)\n"
    assert server.fairy("mig", "apply", "--gpu", CUT, "--want", "3g.20gb,3g.20gb", "--yes").stdout == "nothing to do: it is 2 x 3g.20gb (simulated)\n"
    told = server.fairy("events").stdout
    assert "box GPU 1 (simulated)  mig_cut 7 x 1g.5gb → 2 x 3g.20gb" in told
    until(lambda: [one["profile"] for one in fairy.gpus()[1]["instances"]] == ["3g.20gb", "3g.20gb"], "the readings to follow")
    before = gpu(fairy, CUT)["instances"]
    server.kill()
    server.start()
    assert gpu(fairy, CUT)["instances"] == before
    assert gpu(fairy, CUT)["changes"][0]["what"] == "mig_cut"


def test_automatic_mode_lets_one_who_waits_start(server, fairy):
    refused = server.fairy("run", "--detach", "--gpus", "mig:4g.24gb", "--", "true")
    assert refused.returncode == 3  # as it is cut, it could never start
    assert server.fairy("mig", "auto", "on", AUTO).stdout == "the cut of 1 GPU follows the queue\n"
    fairy.submit({"name": "big", "gpus": "mig:4g.24gb", "command": ["sleep", "600"]})
    wait_for_state(fairy, "big", "RUNNING")
    assert cut(fairy, AUTO) == [("4g.24gb", 0)]
    assert fairy.session("big")["seat"]["gpus"][0]["instance_uuid"].startswith("MIG-")
    fairy.submit({"name": "small", "gpus": "mig:1g.6gb", "command": ["sleep", "600"]})
    fairy.stop("big")
    wait_for_state(fairy, "small", "RUNNING")
    fairy.stop("small")
    assert "for 1 that waits in the queue" in gpu(fairy, AUTO)["changes"][0]["why"]


A100 = FakeGpu(uuid="GPU-aa", mig=True, instances=tuple(FakeInstance(gi=n + 1, slot=n, start=n, uuid=f"MIG-{n}") for n in range(3)))


@pytest.fixture
def driven(tmp_path: Path):
    """A server whose GPU is told by the driver's library, which is a fake."""
    fake = FakeNvml(tmp_path)
    fake.write(FakeMachine((A100,)))
    live = LiveServer(tmp_path / "fairy", SETTINGS)
    live.env |= fake.env
    with live:
        yield live, fake


def test_a_gpu_is_cut_through_its_driver_and_a_session_gets_the_new_instance(driven):
    live, _ = driven
    done = live.fairy("mig", "apply", "--gpu", "GPU-aa", "--want", "3g.20gb", "--yes")
    assert (done.returncode, done.stdout) == (0, "cut as 3g.20gb + 3 x 1g.5gb\n"), done.stderr
    uuid = next(one["uuid"] for one in gpu(live.client(), "GPU-aa")["instances"] if one["profile"] == "3g.20gb")
    ran = live.fairy("run", "--gpus", "mig:3g.20gb", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert ran.stdout.strip() == uuid


def test_a_server_killed_while_it_cuts_finishes_when_it_is_back(driven):
    live, fake = driven
    fake.write(FakeMachine((A100,), hang=("nvmlDeviceCreateGpuInstanceWithPlacement",), counts_calls=True))
    fairy = live.client()
    order = live.data / "mig" / "GPU-aa.order.json"
    command = [sys.executable, "-m", "gpufairy", "mig", "apply", "--gpu", "GPU-aa", "--want", "7g.40gb", "--yes"]
    asking = subprocess.Popen(command, env=live.env)
    seen = fake.calls()

    def stuck() -> bool:
        seen.update(fake.calls())
        return bool(seen["nvmlDeviceCreateGpuInstanceWithPlacement"])

    until(stuck, "the driver to hang")
    assert order.exists()
    live.kill()
    asking.kill()  # whoever asked is gone too
    asking.wait()
    fake.write(FakeMachine((A100,)), keep_cut=True)
    live.start()
    until(lambda: cut(fairy, "GPU-aa") == [("7g.40gb", 0)], "the order to be finished")
    assert gpu(fairy, "GPU-aa")["changes"][0]["why"] == "3 x 1g.5gb → 7g.40gb; taken up again after a break"
    until(lambda: not order.exists(), "the order to be put away")
