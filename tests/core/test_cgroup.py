"""Which container a process is in, by lines that were seen on real hosts (tests/data/cgroup_lines.jsonl names the source of each)."""
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufairy.core.cgroup import LONGEST_TEXT, Container, container_of, containers_of, user_slice, whole_container

LINES = Path(__file__).parents[1] / "data" / "cgroup_lines.jsonl"
SEEN = [json.loads(line) for line in LINES.read_text().splitlines()]
# These two were seen on hosts whose runtime was known. Their paths do not tell it: with the cgroupfs driver containerd names a container
# by its bare id, and so does Docker, by dockershim on version 1 and by cri-dockerd on both. So it is called `kubepods`, as for the same
# shapes elsewhere in the file. Only the API server could tell (`containerd://…`), and nobody's name hangs on it.
RUNTIME_NOT_ON_THE_PATH = ("child cgroup below the container (kube-proxy)", "GKE (per grafana/beyla#588), cgroupfs driver")
A, B = "a" * 64, "b" * 64


@pytest.mark.parametrize("case", SEEN, ids=[case["case"] for case in SEEN])
def test_a_line_seen_on_a_real_host_is_understood(case: dict[str, Any]):
    runtime = "kubepods" if case["case"] in RUNTIME_NOT_ON_THE_PATH else case["runtime"]
    wanted = Container(runtime, case["container_id"], case["pod_uid"]) if runtime else None
    assert container_of("\n".join(case["lines"])) == wanted


def shape(case: dict[str, Any]) -> str:
    """What is left of a path without ids, the pod's class and what is below the container."""
    path = re.sub("[0-9a-f]{64}.*", "ID", case["lines"][0].partition(":")[2])
    return re.sub("^[^:]*", "", re.sub("/(besteffort|burstable)|pod[0-9a-f-]+", "", path))


@pytest.mark.parametrize("name", RUNTIME_NOT_ON_THE_PATH)
def test_a_shape_that_tells_no_runtime_is_told_without_one_elsewhere(name: str):
    (known,) = (case for case in SEEN if case["case"] == name)
    assert "kubepods" in {case["runtime"] for case in SEEN if shape(case) == shape(known)}


def test_every_line_of_the_collection_is_here():
    assert len(SEEN) == 57


def test_containers_inside_containers_are_told_from_the_outermost_on():
    assert [found.container_id for found in containers_of(f"0::/docker/{A}/docker/{B}/init")] == [A, B]


def test_the_line_that_knows_an_id_counts_wherever_it_stands():
    known, unknown = f"4:memory:/docker/{A}", "0::/system.slice/containerd.service"
    assert container_of(f"{known}\n{unknown}") == container_of(f"{unknown}\n{known}") == Container("docker", A)


def test_a_docker_with_a_cgroup_parent_of_its_own_is_found():
    assert container_of(f"0::/lab/students/{A}") == Container("docker", A)


def test_a_slurm_job_of_cgroup_version_1_is_no_container():
    assert container_of("7:memory:/slurm/uid_1000/job_42/step_0/task_0") == Container("slurm")


@pytest.mark.parametrize("character", "\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
def test_a_line_break_in_a_name_does_not_begin_another_line(character: str):
    assert user_slice(f"0::/system.slice/x{character}0::/user.slice/user-1001.slice/y") is None


def test_the_slice_tells_the_user_of_a_rootless_container():
    assert user_slice(f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope/container") == 1000
    assert user_slice(f"0::/docker/{A}") is None


def test_a_slice_inside_a_container_is_no_slice_of_the_hosts():
    assert user_slice("0::/lxc.payload.box/user.slice/user-1000.slice/session-1.scope") is None


def test_a_container_is_measured_whole_from_further_down():
    text = f"3:memory:/docker/{A}/own/deeper\n0::/docker/{A}\n1:name=systemd:/"
    assert [(line.controllers, line.path) for line in whole_container(text, A)] == [(("memory",), f"docker/{A}"), ((), f"docker/{A}")]


def test_names_joined_by_colons_are_measured_at_their_end():
    path = f"system.slice/containerd.service/kubepods-besteffort-pod0043435f_1854_4327_b76b_730f681a781d.slice:cri-containerd:{A}"
    (line,) = whole_container(f"13:memory:/{path}/below", A)
    assert line.path == path


PIECES = st.sampled_from(
    ["docker", "libpod", "lxc", "buildkit", "..", "", ":", f"docker-{A}.scope", A, A[1:], "pod" + "0" * 32, "kubepods.slice", "\\x2d", "conmon", "0::/", "\n"]
)


@given(st.one_of(st.text(max_size=2000), st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=60).map("/".join)))
def test_no_text_is_too_strange(text: str):
    for one in (text, f"0::/{text}"):
        found = container_of(one)
        assert found is None or found.container_id is None or len(found.container_id) <= 255
        user_slice(one)
        whole_container(one, A)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["0::/" + "a" * 10_000_000, "0::" + "/a" * 5_000_000, "\n" * 10_000_000, "0::/" + "docker-" * 1_000_000, ("0::/docker/" + A + "\n") * 100_000, "0::" + f"/docker/{A}" * 100_000])
def test_a_huge_text_takes_no_longer_than_a_large_one(text: str):
    took_s = []
    for _ in range(3):  # the best: the garbage of a thousand tests before may be swept meanwhile
        began = time.process_time()
        containers_of(text)
        took_s.append(time.process_time() - began)
    assert min(took_s) < 1.0


def test_what_is_beyond_the_limit_is_not_read():
    assert container_of("0::/" + "x" * LONGEST_TEXT + f"\n4:memory:/docker/{A}") is None
