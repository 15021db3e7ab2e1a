"""The body of a session's pod, and what is read back from one: pure, and without a cluster."""
import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import GIB, a_gpu_seat, a_seat, a_session
from gpufairy.core.errors import EngineRefused
from gpufairy.core.share import PARTS
from gpufairy.core.workload import WorkloadId, WorkloadState
from gpufairy.engines.docker_launch import check_names
from gpufairy.engines.pod_claims import claim_body, claim_name
from gpufairy.engines.pod_events import last_words, slow_pods
from gpufairy.engines.pod_gpus import counted_uuid
from gpufairy.engines.pod_list import ended_by_deletion
from gpufairy.engines.pod_seen import PodSeen, slim_pod
from gpufairy.engines.pod_settings import ClaimFolder, FractionsBy, GpuNames, HomeClaims, PodSettings, ToolsBy
from gpufairy.engines.pod_spec import Here, labelled_id, labelled_session, namespace_of, pod_body, pod_name, secret_body
from gpufairy.engines.pod_workload import workload_of

HERE = Here(20_001, "server1", ToolsBy.VOLUME, "home-student1-20001")
SETTINGS = PodSettings(
    tools_image="gpufairy-tools:1", server_url="http://fairy:8420", homes=HomeClaims(),
    folders={"data": ClaimFolder("datasets"), "scratch": ClaimFolder("scratch", "team", writable=True)},
)  # fmt: skip
# Everything that a pod of ours may have. What is not named here, nobody can bring in.
IN_POD = {"apiVersion", "kind", "metadata", "spec"}
IN_METADATA = {"name", "labels", "annotations"}
IN_SPEC = {
    "restartPolicy", "automountServiceAccountToken", "enableServiceLinks", "securityContext", "tolerations", "affinity", "nodeSelector", "hostname",
    "containers", "initContainers", "volumes", "imagePullSecrets", "runtimeClassName", "resourceClaims",
}  # fmt: skip
IN_CONTAINER = {"name", "image", "imagePullPolicy", "command", "env", "resources", "securityContext", "terminationMessagePolicy", "volumeMounts"}
KINDS_OF_VOLUMES = {"secret", "emptyDir", "persistentVolumeClaim", "image"}


def spec_of(session, here=HERE, settings=SETTINGS) -> dict[str, Any]:
    return pod_body(session, here, settings)["spec"]


def main_of(session, here=HERE, settings=SETTINGS) -> dict[str, Any]:
    return spec_of(session, here, settings)["containers"][0]


def asking(session, **fields):
    return replace(session, request=replace(session.request, **fields))


HOSTILE = asking(
    a_session(
        "sh", "-c", "hostNetwork: true\n---\n$(FAIRY_TOKEN_FILE) ${HOME} `id`", owner="kim-_", name="a-1",
        env=(("A", "x\ny: z"), ("LD_PRELOAD", "/evil.so"), ("FAIRY_URL", "http://evil"), ("1BAD", "x"), ("NUL", "a\0b"), ("HOME", "/root")),
    ),
    image="../../evil:1", mounts=("data/a b", "scratch"),
)  # fmt: skip


@pytest.mark.parametrize("tools", [ToolsBy.VOLUME, ToolsBy.COPY])
@pytest.mark.parametrize("session", [a_session("true"), a_session(), HOSTILE, a_session("true", seat=None)], ids=["plain", "interactive", "hostile", "seatless"])
def test_every_field_is_from_the_list(session, tools):
    body = pod_body(session, replace(HERE, tools_by=tools), replace(SETTINGS, runtime_class="nvidia", pull_secret="registry"))
    assert set(body) <= IN_POD
    assert set(body["metadata"]) <= IN_METADATA
    assert set(body["spec"]) <= IN_SPEC
    for container in (*body["spec"]["containers"], *body["spec"].get("initContainers", ())):
        assert set(container) <= IN_CONTAINER
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}}
    assert {kind for volume in body["spec"]["volumes"] for kind in volume if kind != "name"} <= KINDS_OF_VOLUMES
    assert body["spec"]["automountServiceAccountToken"] is False
    assert body["spec"]["securityContext"]["runAsNonRoot"] is True


def test_nobody_is_root_whatever_the_image_says():
    assert spec_of(a_session("true"))["securityContext"]["runAsUser"] == 20_001


def test_a_command_is_taken_to_the_letter_though_kubernetes_puts_variables_in():
    words = ("sh", "-c", "echo $(USER) $$(date) $$ $ $$$(HOME)")
    command = main_of(a_session(*words))["command"]
    assert [expanded(word, {"USER": "evil", "HOME": "evil"}) for word in command[command.index("--") + 1 :]] == [*words]


def expanded(text: str, env: dict[str, str]) -> str:
    """As Kubernetes does it (third_party/forked/golang/expansion)."""
    out, at = "", 0
    while at < len(text):
        follows = text[at + 1 : at + 2]
        if text[at] != "$" or not follows:
            out, at = out + text[at], at + 1
        elif follows == "$":
            out, at = out + "$", at + 2
        elif follows == "(" and ")" in text[at:]:
            end = text.index(")", at)
            name = text[at + 2 : end]
            out, at = out + env.get(name, f"$({name})"), end + 1
        else:
            out, at = out + text[at : at + 2], at + 2
    return out


def test_words_of_the_porter_cannot_be_given_by_a_user():
    command = main_of(a_session("--token", "/etc/shadow:/tmp/x"))["command"]
    assert command[command.index("--") :] == ["--", "--token", "/etc/shadow:/tmp/x"]


def test_values_of_variables_are_in_the_secret_alone():
    session = a_session("true", env=(("API_KEY", "canary-5e1f"),))
    assert "canary" not in json.dumps(pod_body(session, HERE, SETTINGS))
    assert base64.b64decode(secret_body(session, HERE, SETTINGS, "token")["data"]["env.API_KEY"]) == b"canary-5e1f"


def test_the_token_is_in_the_secret_alone():
    session = a_session("true")
    assert "canary" not in json.dumps(pod_body(session, HERE, SETTINGS))
    assert base64.b64decode(secret_body(session, HERE, SETTINGS, "canary")["data"]["token"]) == b"canary"


def test_reserved_and_impossible_variables_are_left_out():
    names = [one["name"] for one in main_of(HOSTILE)["env"] if "valueFrom" in one]
    assert names == ["A", "HOME"]
    ours = {one["name"]: one.get("value") for one in main_of(HOSTILE)["env"]}
    assert (ours["FAIRY_URL"], ours["LD_PRELOAD"], ours["NVIDIA_VISIBLE_DEVICES"]) == ("http://fairy:8420", "", "void")


def test_no_variable_is_set_twice():
    names = [one["name"] for one in main_of(HOSTILE)["env"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("wanted", ["other", "data/..", "data/a/../b", "data//b", "data/\x00", "data/\n", "/data", "../data", "scratch/below", ""])
def test_a_folder_that_is_not_offered_or_leads_elsewhere_is_refused_in_words(wanted):
    with pytest.raises(EngineRefused, match=r"folder|path") as refused:
        main_of(asking(a_session("true"), mounts=(wanted,)))
    assert refused.value.next_step


def test_a_folder_is_read_only_unless_the_admin_says_otherwise():
    mounts = {one["mountPath"]: one for one in main_of(asking(a_session("true"), mounts=("data/imagenet", "scratch")))["volumeMounts"]}
    assert (mounts["/mnt/data/imagenet"]["readOnly"], mounts["/mnt/data/imagenet"]["subPath"]) == (True, "imagenet")
    assert (mounts["/mnt/scratch"]["readOnly"], mounts["/mnt/scratch"]["subPath"]) == (False, "team")


@pytest.mark.parametrize(("owner", "name"), [("../x", "a"), ("Kim", "a"), ("kim", "a b"), ("kim", "-a"), ("kim", "a" * 41), ("", "a"), ("kim\n", "a")])
def test_hostile_names_never_come_so_far(owner, name):
    with pytest.raises(EngineRefused):
        check_names(a_session("true", owner=owner, name=name))


@pytest.mark.parametrize("owner", ["kim", "kim-", "k_i_m", "k__", "k" * 31])
def test_names_and_labels_are_such_as_kubernetes_takes(owner):
    session = a_session("true", owner=owner, name="n" * 40)
    metadata = pod_body(session, HERE, SETTINGS)["metadata"]
    assert all(part.isalnum() for part in metadata["name"].split("-"))
    assert len(metadata["name"]) <= 253
    assert all(value[-1].isalnum() and len(value) <= 63 for value in metadata["labels"].values())
    assert claim_name(owner, 20_001).split("-")[-1] == "20001"


def test_two_who_look_alike_without_their_signs_have_two_claims():
    assert claim_name("k_m", 20_001) != claim_name("k-m", 20_002)


def test_the_name_is_always_the_same_for_one_attempt_and_another_for_the_next():
    session = a_session("true")
    assert pod_name(session) == pod_name(replace(session, why="later"))
    assert pod_name(session) != pod_name(replace(session, attempt=2))


def test_the_pod_carries_its_session_without_the_values_of_variables():
    session = a_session("sh", "-c", "x", env=(("SEED", "7"),), seat=a_seat("here", a_gpu_seat(1, PARTS // 2)), attempt=3)
    metadata = pod_body(session, HERE, SETTINGS)["metadata"]
    assert labelled_id(metadata["labels"]) == WorkloadId(session.id, 3)
    assert labelled_session(metadata["annotations"]["gpufairy.io/launch"]) == asking(session, env=(("SEED", ""),))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"id": 1}'])
def test_an_annotation_that_cannot_be_read_is_no_session(text):
    assert labelled_session(text) is None


@pytest.mark.parametrize("attempt", ["", "x", "-1", "1.5", "²"])
def test_an_attempt_that_is_no_number_is_nobody(attempt):
    assert labelled_id({"gpufairy.io/session": "a", "gpufairy.io/attempt": attempt}) is None


def test_a_command_that_kubernetes_could_not_carry_is_refused_before_anything_is_made():
    with pytest.raises(EngineRefused, match="longer than Kubernetes takes"):
        pod_body(a_session("echo", "x" * 250_000), HERE, SETTINGS)


def test_limits_are_those_of_the_seat_and_asked_for_in_full():
    resources = main_of(a_session("true", seat=a_seat(cpus_milli=2500, memory_bytes=3 * GIB)))["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "2500m", "memory": str(3 * GIB)}


def test_a_pod_goes_to_the_planners_node_and_kube_scheduler_binds_it():
    spec = spec_of(a_session("true"))
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["here"]}]
    assert "nodeName" not in spec


def counted(parts: int = PARTS):
    return a_gpu_seat(0, parts, uuid=counted_uuid("here", "gpu", 0), simulated=False, memory_bytes=10 * GIB)


def test_whole_gpus_come_by_number_and_the_plugin_says_which():
    session = a_session("true", seat=a_seat("here", counted(), replace(counted(), index=1)))
    container = main_of(session)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert not {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"} & {one["name"] for one in container["env"]}


def test_a_part_of_a_gpu_that_nobody_gives_out_is_refused_with_what_to_install():
    with pytest.raises(EngineRefused, match="node here gives out whole GPUs alone") as refused:
        main_of(a_session("true", seat=a_seat("here", counted(PARTS // 4))))
    assert "Helm value" in refused.value.next_step


@pytest.mark.parametrize(("by", "limits"), [
    (FractionsBy.HAMI, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10240", "nvidia.com/gpucores": "25"}),
    (FractionsBy.REPLICAS, {"nvidia.com/gpu.shared": "1"}),
])  # fmt: skip
def test_parts_come_by_the_names_that_the_cluster_has_for_them(by, limits):
    container = main_of(a_session("true", seat=a_seat("here", counted(PARTS // 4))), settings=replace(SETTINGS, gpus=GpuNames(fractions=by)))
    assert {name: amount for name, amount in container["resources"]["limits"].items() if "/" in name} == limits


def test_homes_of_one_node_are_claimed_so():
    assert claim_body("home", "kim", HomeClaims(one_node=True))["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim_body("home", "kim", HomeClaims())["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_team_has_a_namespace_of_its_own_where_the_admin_wants_it():
    settings = replace(SETTINGS, namespace_for_each_team=True)
    assert namespace_of(a_session("true", team="Vision Lab/2"), settings) == "gpufairy-vision-lab-2"
    assert namespace_of(a_session("true", team=None), settings) == "gpufairy"


# What a real kubelet and API server (1.34) told, shortened.
AT = "2026-11-16T08:00:00Z"
CASES: dict[str, tuple[dict[str, Any], WorkloadState, str, int | None, bool]] = {
    "made": ({"phase": "Pending"}, WorkloadState.STARTING, "handed to Kubernetes", None, False),
    "unschedulable": (
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]},
        WorkloadState.STARTING, "finds no node for it yet: 0/3 nodes are available", None, False),
    "creating": (
        {"phase": "Pending", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
        WorkloadState.STARTING, "starting on gpu-7", None, False),
    "first failed pull": (
        {"phase": "Pending", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]},
        WorkloadState.STARTING, "its image cannot be had on gpu-7: not found", None, False),
    "image cannot be had": (
        {"phase": "Pending", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]},
        WorkloadState.EXITED, "its image cannot be had on gpu-7: Back-off pulling image", None, True),
    "tools cannot be had": (
        {"phase": "Pending", "node": "gpu-7", "initContainerStatuses": [{"name": "tools", "state": {"waiting": {"reason": "ErrImageNeverPull", "message": "tools:1 is not present"}}}]},
        WorkloadState.EXITED, "its image cannot be had on gpu-7: tools:1 is not present", None, True),
    "cannot be made": (
        {"phase": "Pending", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}}}]},
        WorkloadState.EXITED, "its container cannot be made on gpu-7 (CreateContainerConfigError): secret", None, True),
    "the node would not take it": (
        {"phase": "Failed", "node": "gpu-7", "reason": "UnexpectedAdmissionError", "message": "Allocate failed due to requested number of devices unavailable"},
        WorkloadState.EXITED, "node gpu-7 would not take it (UnexpectedAdmissionError): Allocate failed", None, True),
    "runs": (
        {"phase": "Running", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": AT}}}]}, WorkloadState.RUNNING, "", None, False),
    "done": (
        {"phase": "Succeeded", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": AT}}}]},
        WorkloadState.EXITED, "", 0, False),
    "failed": (
        {"phase": "Failed", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": AT}}}]},
        WorkloadState.EXITED, "", 3, False),
    "no such command": (
        {"phase": "Failed", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 127, "reason": "Error", "startedAt": AT}}}]},
        WorkloadState.EXITED, "exit code 127", 127, False),
    "out of memory": (
        {"phase": "Failed", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": AT}}}]},
        WorkloadState.EXITED, "out of memory: it wanted more than its 1 GiB. Ask for more by --memory", 137, False),
    "evicted": (
        {"phase": "Failed", "node": "gpu-7", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."},
        WorkloadState.EXITED, "node gpu-7 ran short and its kubelet ended it: The node was low on resource", None, False),
    "drained": (
        {"phase": "Failed", "node": "gpu-7", "leaving": True, "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
         "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 143, "reason": "Error", "startedAt": AT}}}]},
        WorkloadState.EXITED, "its node is being drained", 143, False),
    "taken away with its node": (
        {"phase": "Failed", "node": "gpu-7", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}],
         "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": AT}}}]},
        WorkloadState.EXITED, "its node is gone from the cluster", None, False),
    "shut down": (
        {"phase": "Failed", "node": "gpu-7", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."},
        WorkloadState.EXITED, "node gpu-7 was shut down or lost while it ran", None, False),
    "could not be started": (
        {"phase": "Failed", "node": "gpu-7", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "exec: no such file"}}}]},
        WorkloadState.EXITED, "its container could not be started: exec: no such file", 128, False),
}  # fmt: skip


def told(status: dict[str, Any], session=None) -> dict[str, Any]:
    """As the API server gives it."""
    body = pod_body(session or a_session("true"), HERE, SETTINGS)
    node, leaving = status.get("node", ""), status.get("leaving")
    about = {**body["metadata"], "uid": "u1", "namespace": "gpufairy", "creationTimestamp": AT, **({"deletionTimestamp": AT} if leaving else {})}
    rest = {key: value for key, value in status.items() if key not in ("node", "leaving")}
    return {**body, "metadata": about, "spec": {**body["spec"], **({"nodeName": node} if node else {})}, "status": rest}


@pytest.mark.parametrize("name", CASES)
def test_each_case_is_told_in_words(name):
    status, state, words, code, refused = CASES[name]
    session = a_session("true")
    found = workload_of(slim_pod(told(status, session)), session, stopped=False)
    assert (found.state, found.exit_code, found.refused) == (state, code, refused)
    assert words in found.why
    assert bool(found.why) == bool(words)


@pytest.mark.parametrize("name", CASES)
def test_whatever_was_seen_last_of_a_deleted_pod_it_is_over_and_not_refused(name):
    pod = ended_by_deletion(slim_pod(told(CASES[name][0])))
    assert pod.over
    assert pod.refused is (CASES[name][4] and pod.phase == "Failed" and pod.reason == "UnexpectedAdmissionError")


def unschedulable(since: datetime, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "1 Insufficient nvidia.com/gpu.", "lastTransitionTime": since.isoformat()}
    return {"phase": "Pending", "conditions": [condition]}


def test_one_whose_place_somebody_else_took_goes_back_after_a_moment_and_that_is_not_counted_against_it():
    now, session = datetime.now(UTC), a_session("true", seat=a_seat("gpu-7"))
    fresh, old = (workload_of(slim_pod(told(unschedulable(now - timedelta(seconds=s)), session)), session, stopped=False) for s in (3, 20))
    assert (fresh.state, fresh.refused) == (WorkloadState.STARTING, False)
    assert (old.state, old.refused, old.crowded_out) == (WorkloadState.EXITED, True, True)
    assert "somebody else's pod has taken its place" in old.why
    gone = ended_by_deletion(slim_pod(told(unschedulable(now - timedelta(hours=1)), session)))
    assert (gone.over, gone.refused) == (True, False)


def test_one_that_waits_behind_a_gate_or_for_a_node_of_a_pool_is_not_crowded_out():
    ago, session = datetime.now(UTC) - timedelta(hours=1), a_session("true", seat=a_seat("gpu-7"))
    assert not slim_pod(told(unschedulable(ago, "SchedulingGated"), session)).crowded_out
    for_pool = told(unschedulable(ago), session)
    del for_pool["spec"]["affinity"]
    assert not slim_pod(for_pool).crowded_out


def test_one_that_we_stopped_is_told_so_and_one_deleted_by_hand_otherwise():
    pod = slim_pod(told({**CASES["failed"][0], "leaving": True}))
    assert "told to stop" in workload_of(pod, None, stopped=True).why
    assert "deleted in Kubernetes, not by gpufairy" in workload_of(pod, None, stopped=False).why


def test_long_words_of_kubernetes_are_one_line_and_cut():
    status = {"phase": "Failed", "node": "n", "reason": "Evicted", "message": "a\n b" * 500}
    why = workload_of(slim_pod(told(status)), None, stopped=False).why
    assert "\n" not in why
    assert len(why) < 600


@pytest.mark.parametrize("nonsense", [{}, {"metadata": None, "spec": None, "status": None}, {"status": {"containerStatuses": None, "conditions": None}}, {"spec": {"containers": []}}])
def test_what_another_version_leaves_out_is_empty(nonsense):
    assert slim_pod(nonsense).id is None
    assert workload_of(slim_pod(nonsense), None, stopped=False) is None


@pytest.mark.parametrize("code", [-1, 256, "0", None, 1.5])
def test_an_exit_code_that_is_none_is_not_known(code):
    pod = slim_pod(told({"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}))
    assert pod.over
    assert pod.ended.code is None


def a_pod(**fields: Any) -> PodSeen:
    return replace(slim_pod(told({"phase": "Pending", "node": "gpu-7"})), **fields)


def test_events_are_asked_for_of_those_alone_that_take_long_to_begin():
    now = datetime(2026, 11, 16, 8, 0, 30, tzinfo=UTC)
    slow, young, bound_to_none = a_pod(), a_pod(made_at=now - timedelta(seconds=1)), a_pod(node="")
    assert slow_pods([slow, young, bound_to_none, a_pod(running_since=now), a_pod(phase="Failed")], now) == [slow]


def test_the_newest_event_is_told():
    old = {"reason": "Old", "message": "x", "lastTimestamp": "2026-11-16T08:00:00Z"}
    new = {"reason": "FailedMount", "message": "no such claim", "series": {"lastObservedTime": "2026-11-16T08:00:09.5Z"}, "eventTime": "2026-11-16T07:00:00Z"}
    assert last_words([new, old]) == "FailedMount: no such claim"
    assert last_words([]) == ""
    assert last_words([{}]) == ""


def test_a_slow_start_says_what_the_events_say():
    why = workload_of(a_pod(), None, stopped=False, warned="FailedMount: no such claim").why
    assert why == "starting on gpu-7, which has trouble: FailedMount: no such claim"
