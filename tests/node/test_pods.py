"""Names of pods as they are remembered: who is asked when, and what is believed. The questions themselves are asked in tests/kube."""
from collections.abc import Mapping

from gpufairy.core.errors import EngineSilent
from gpufairy.node.kube_pods import KubePod
from gpufairy.node.pod_resources import Holder, Holders
from gpufairy.node.pods import GOOD_S, KEPT_S, MET_S, SILENT_AGAIN_S, UNKNOWN_AGAIN_S, WANTED_S, KnownPods, Pods, known_pods
from gpufairy.node.whose import PodFacts
from waits import until

UID, OTHER_UID, HASH = "0e886e9a-3879-45f9-b44d-86ef9df03224", "4a163a05-439d-484b-8e53-2968bc15824f", "7260904bbd08e72e4dff95d9fccd2ee8"
A, B, C = "a" * 64, "b" * 64, "c" * 64
TRAIN = KubePod(UID, "train-0", "ml", {"owner": "kim"}, {A: "torch"})
GPU = "GPU-1"


class Cluster:
    """Both who can be asked, and the clock."""

    def __init__(self, *pods: KubePod, holders: Holders | None = None) -> None:
        self.pods, self.holders, self.now_s = list(pods), holders or {}, 1000.0
        self.api_asked = self.kubelet_asked = 0
        self.silent = ""

    def api(self) -> KnownPods:
        self.api_asked += 1
        if self.silent:
            raise EngineSilent(self.silent, "Mend it.")
        return known_pods(self.pods)

    def kubelet(self) -> Holders:
        self.kubelet_asked += 1
        return self.holders

    def watched(self, *, api: bool = True) -> Pods:
        return Pods(self.api if api else None, self.kubelet, monotonic=lambda: self.now_s, wait_s=10.0)


def held_by(**pods: str) -> Mapping[str, frozenset[Holder]]:
    return {GPU: frozenset(Holder(pod, "ml", container) for pod, container in pods.items())}


def test_a_pod_is_known_by_its_uid_and_its_container_by_its_id():
    pods = Cluster(TRAIN).watched()
    assert pods.facts(UID, A) == PodFacts("train-0", "ml", "torch", labels={"owner": "kim"})
    assert pods.facts(UID, None) == PodFacts("train-0", "ml", labels={"owner": "kim"})
    assert pods.facts(UID[:-1], A) is None, "uids are compared whole"
    assert (pods.known, pods.trouble) == (True, ())


def test_who_is_known_is_not_asked_about_again():
    cluster = Cluster(TRAIN)
    pods = cluster.watched()
    for _ in range(10):
        cluster.now_s += 1
        pods.refresh()
        assert pods.facts(UID, A)
    assert cluster.api_asked == 1


def test_an_unknown_pod_is_asked_about_ever_more_seldom():
    cluster = Cluster(TRAIN)
    pods = cluster.watched()
    for _ in range(int(GOOD_S) - 1):
        assert pods.facts(OTHER_UID, B) is None
        cluster.now_s += 1
    assert 3 <= cluster.api_asked <= 6


def test_a_container_that_the_kubelet_tells_of_late_is_named_when_it_does():
    cluster = Cluster(KubePod(UID, "train-0", "ml"))
    pods = cluster.watched()
    assert pods.facts(UID, A) == PodFacts("train-0", "ml")
    cluster.pods = [TRAIN]
    cluster.now_s += UNKNOWN_AGAIN_S
    assert pods.facts(UID, A) == PodFacts("train-0", "ml", "torch", labels={"owner": "kim"})


def test_a_silent_server_leaves_what_it_said_for_an_hour():
    cluster = Cluster(TRAIN)
    pods = cluster.watched()
    assert pods.facts(UID, A)
    cluster.silent = "No answer."
    cluster.now_s += GOOD_S
    pods.refresh()
    until(lambda: pods.refresh() or pods.trouble, "the trouble")
    assert (pods.known, pods.trouble) == (False, ("No answer. Mend it.",))
    assert pods.facts(UID, A)
    assert pods.facts(OTHER_UID, B) is None
    cluster.now_s += KEPT_S
    pods.refresh()
    assert pods.facts(UID, A) is None


def test_a_server_that_is_back_is_heard_soon():
    cluster = Cluster(TRAIN)
    cluster.silent = "No answer."
    pods = cluster.watched()
    assert pods.facts(UID, A) is None
    cluster.silent = ""
    cluster.now_s += SILENT_AGAIN_S
    until(lambda: pods.refresh() or pods.known, "it to be heard")
    assert pods.facts(UID, A)


def test_nobody_is_asked_while_no_pod_is_met():
    cluster = Cluster(TRAIN)
    pods = cluster.watched()
    for _ in range(10):
        cluster.now_s += GOOD_S
        pods.refresh()
    assert (cluster.api_asked, cluster.kubelet_asked, pods.known) == (0, 0, True)


def test_a_host_without_kubernetes_has_nothing_to_tell():
    cluster = Cluster()
    pods = cluster.watched(api=False)
    assert pods.known is None
    pods.facts(UID, A, GPU)
    assert pods.known is True
    cluster.now_s += WANTED_S
    assert pods.known is None


def test_a_static_pod_is_found_by_the_uid_that_it_runs_under_and_a_container_of_it():
    shown = KubePod(OTHER_UID, "still-node", "kube-system", {}, {A: "main"}, HASH)
    pods = Cluster(shown).watched()
    assert pods.facts(HASH, A) == PodFacts("still-node", "kube-system", "main")
    assert pods.facts(HASH, B) is None


def test_a_pod_that_only_says_to_be_anothers_is_not_believed():
    forged = KubePod(OTHER_UID, "forged", "mallory", {}, {}, UID)
    assert Cluster(forged, TRAIN).watched().facts(UID, A).pod == "train-0"  # type: ignore[union-attr]
    assert Cluster(forged).watched().facts(UID, A) is None
    static = KubePod(OTHER_UID, "still", "kube-system", {}, {A: "main"}, HASH)
    assert Cluster(KubePod(UID, "forged", "mallory", {}, {}, HASH), static).watched().facts(HASH, A).pod == "still"  # type: ignore[union-attr]


def second_look(cluster: Cluster, pods: Pods, *containers: str) -> list[PodFacts | None]:
    for container in containers:
        assert pods.facts(UID, container, GPU) is None, "at first sight others may be on it that were not looked at yet"
    cluster.now_s += UNKNOWN_AGAIN_S
    return [pods.facts(UID, container, GPU) for container in containers]


def test_where_nobody_else_tells_the_one_who_was_given_the_gpu_is_on_it():
    cluster = Cluster(holders=held_by(train="torch"))
    assert second_look(cluster, cluster.watched(api=False), A) == [PodFacts("train", "ml", "torch")]
    assert second_look(cluster, cluster.watched(), A) == [PodFacts("train", "ml", "torch")]


def test_of_several_who_may_be_on_a_gpu_none_is_named():
    cluster = Cluster(holders=held_by(train="torch", serve="vllm"))
    assert second_look(cluster, cluster.watched(api=False), A) == [None]
    cluster.holders = held_by(train="torch")
    assert second_look(cluster, cluster.watched(api=False), A, B) == [None, None]


def test_one_that_the_api_server_knows_counts_among_those_on_a_gpu():
    cluster = Cluster(KubePod(OTHER_UID, "intruder", "ml", {}, {B: "main"}), holders=held_by(train="torch"))
    pods = cluster.watched()
    for _ in range(3):
        assert pods.facts(OTHER_UID, B, GPU).pod == "intruder"  # type: ignore[union-attr]
        assert pods.facts(UID, A, GPU) is None
        cluster.now_s += UNKNOWN_AGAIN_S


def test_who_had_the_gpu_before_is_not_taken_for_who_has_it_now():
    cluster = Cluster(holders=held_by(train="torch"))
    pods = cluster.watched(api=False)
    assert second_look(cluster, pods, A) == [PodFacts("train", "ml", "torch")]
    cluster.holders = held_by(serve="vllm")
    cluster.now_s += MET_S
    assert second_look(cluster, pods, C) == [PodFacts("serve", "ml", "vllm")]
