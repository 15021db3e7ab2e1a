"""Shares as admins set them and users ask for them: fGPU by kind, fractions, memory apart; what is enforced is said everywhere."""
import json

import pytest
from bench.server import LiveServer

from waits import wait_for_state

pytestmark = pytest.mark.slow  # a server of its own
GIB = 2**30


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LiveServer(tmp_path_factory.mktemp("shares") / "fairy", "[node]\ncpus = 16\n", ("--simulate", "2xA100-40GB,1xH200")) as started:
        yield started


def as_json(server, *arguments):
    return json.loads(server.fairy(*arguments, "--json").stdout)


def test_half_an_fgpu_where_a_gpu_is_two_is_a_quarter_of_the_card(server):
    server.fairy("share", "set", "A100-40GB", "--fgpu", "2")
    client = server.client()
    client.submit({"name": "quarter", "gpus": "0.5fgpu", "gpu_kind": "A100", "command": ["sleep", "600"]})
    [gpu] = wait_for_state(client, "quarter", "RUNNING")["seat"]["gpus"]
    assert (gpu["share"], gpu["memory_bytes"]) == (0.25, 10 * GIB)
    assert (gpu["enforced"], gpu["accounted"], gpu["simulated"]) == ([], ["memory", "sm"], True)
    client.stop("quarter")


def test_a_rule_for_one_gpu_counts_before_its_kinds_and_can_be_taken_back(server):
    server.fairy("share", "set", "A100-40GB", "--fgpu", "4")
    uuid = as_json(server, "share")["items"][1]["uuid"]
    server.fairy("share", "set", uuid, "--fgpu", "5")
    assert [gpu["fgpu"] for gpu in as_json(server, "share")["items"]] == [4, 5, 1]
    assert [gpu["fgpu"] for gpu in as_json(server, "share", "clear", uuid)["items"]] == [4, 4, 1]
    assert "A100-40GB" in server.fairy("share").stdout


def test_memory_asked_for_apart_is_set_aside_and_refused_in_words_when_it_is_not_there(server):
    client = server.client()
    done = server.fairy("start", "--gpus", "0.5", "--gpu-memory", "36GiB", "--gpu-kind", "H200", "--name", "roomy", "--detach")
    assert done.returncode == 0, done.stderr
    [gpu] = wait_for_state(client, "roomy", "RUNNING")["seat"]["gpus"]
    assert (gpu["share"], gpu["memory_bytes"]) == (0.5, 36 * GIB)
    card = next(one for one in client.gpus() if one["uuid"] == gpu["uuid"])
    assert card["free_memory_bytes"] == card["memory_bytes"] - 36 * GIB
    client.stop("roomy")
    refused = server.fairy("run", "--gpus", "1", "--gpu-memory", "10GiB", "--", "true", check=False)
    assert refused.returncode == 2
    assert "goes with a fraction of a GPU" in refused.stderr
    never = server.fairy("run", "--gpus", "0.5", "--gpu-memory", "500GiB", "--", "true", check=False)
    assert never.returncode == 3
    assert "of one GPU's memory free, 500 GiB asked" in never.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("set", "B300", "--fgpu", "2"), 4, "no GPU here is 'B300'"),
        (("set", "*", "--fgpu", "0"), 2, "fgpu: 0.0 is not between 0.01 and 1000"),
        (("set", "*"), 2, "found neither fgpu nor sharing"),
        (("set", "*", "--by", "magic"), 2, "sharing: found 'magic'"),
        (("set", "*", "--by", "mps"), 3, "plain processes here"),
        (("clear", "nothing"), 4, "no rule for 'nothing'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_found(server, arguments, code, words):
    done = server.fairy("share", *arguments, check=False)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
