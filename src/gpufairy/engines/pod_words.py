"""What Kubernetes says of a pod, in words of ours: why it waits, and how it ended."""
import re

from gpufairy.core.amounts import show_size
from gpufairy.engines.docker_words import TOLD_TO_STOP
from gpufairy.engines.pod_seen import IMAGE_TROUBLE, NEVER_BEGAN, PodSeen
from gpufairy.engines.run_folder import COULD_NOT_RUN, SIGNAL_NAMES

LONGEST = 400  # letters of Kubernetes' own words that are passed on
GONE_BY = {
    "PreemptionByScheduler": "Kubernetes made room for a pod of higher priority",
    "DeletionByTaintManager": "its node was tainted, or did not answer for long, so Kubernetes took the pod away",
    "EvictionByEvictionAPI": "its node is being drained (or somebody evicted the pod)",
    "DeletionByPodGC": "its node is gone from the cluster",
    "TerminationByKubelet": "its node ran short of memory or disk, or was shut down",
}


def why_waiting(pod: PodSeen, warned: str = "") -> str:
    """`warned`: what Kubernetes' events say of it."""
    if pod.reason and pod.phase == "Failed":
        return f"node {pod.node} would not take it ({pod.reason}): {said(pod.message)}"
    if pod.waiting == "ErrImagePull" or pod.waiting in IMAGE_TROUBLE:
        return f"its image cannot be had on {pod.node}: {said(pod.waiting_words) or pod.waiting}"
    if pod.waiting in NEVER_BEGAN:
        return f"its container cannot be made on {pod.node} ({pod.waiting}): {said(pod.waiting_words)}"
    if pod.crowded_out:
        return f"somebody else's pod has taken its place, so another is looked for: {said(pod.scheduled)}"
    if pod.scheduled:
        return f"Kubernetes finds no node for it yet: {said(pod.scheduled)}"
    if pod.node and warned:
        return f"starting on {pod.node}, which has trouble: {said(warned)}"
    if pod.node:
        return f"starting on {pod.node}: its image is fetched and its container made"
    return "handed to Kubernetes, which looks for its node"


def why_over(pod: PodSeen, *, stopped: bool) -> str:
    """In words, what is known of the end beside its exit code."""
    ended = pod.ended
    if ended is not None and ended.reason == "OOMKilled":
        return f"killed by the kernel, out of memory: it wanted more{limit_words(pod.memory)}. Ask for more by --memory"
    if pod.reason == "Evicted":
        return f"node {pod.node} ran short and its kubelet ended it: {said(pod.message)}"
    if pod.disrupted in GONE_BY:
        return GONE_BY[pod.disrupted]
    if stopped:
        return TOLD_TO_STOP
    if pod.leaving:
        return "its pod was deleted in Kubernetes, not by gpufairy"
    if pod.reason in ("NodeLost", "Terminated", "NodeShutdown"):
        return f"node {pod.node} was shut down or lost while it ran: {said(pod.message)}"
    if ended is not None and ended.reason in ("StartError", "ContainerCannotRun"):
        return f"its container could not be started: {said(ended.message)}"
    code = None if ended is None else ended.code
    if code in COULD_NOT_RUN:
        return f"exit code {code}: {COULD_NOT_RUN[code]}; its log says more"
    if code is not None and code - 128 in SIGNAL_NAMES:
        return f"exit code {code}: ended by {SIGNAL_NAMES[code - 128]}"
    return ""


def limit_words(memory: str) -> str:
    return f" than its {show_size(int(memory))}" if memory.isdecimal() else ""


def said(text: str) -> str:
    """One line, and no more of it than people read."""
    return re.sub(r"\s+", " ", text).strip()[:LONGEST]
