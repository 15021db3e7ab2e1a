"""A pod of ours as the API server tells of it, kept slim."""
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufairy.core.workload import WorkloadId
from gpufairy.engines.pod_spec import LAUNCH, MAIN, labelled_id

# Reasons of a container that waits and will never begin by waiting.
IMAGE_TROUBLE = frozenset({"ErrImageNeverPull", "InvalidImageName", "ImagePullBackOff"})
NO_TOOLS = "ToolsNotCopied"  # ours
NEVER_BEGAN = IMAGE_TROUBLE | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", NO_TOOLS}
DELETED = "Deleted"  # ours: it went without anybody having seen how it ended
NODE_ENDED = frozenset({"Evicted", "NodeLost", "Terminated", "NodeShutdown", DELETED})
CROWDED_OUT = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Ended:
    """How its container ended."""

    code: int | None
    reason: str
    message: str
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class PodSeen:
    namespace: str
    name: str
    uid: str
    id: WorkloadId | None  # None: labels unreadable
    owner: str
    role: str
    launch: str  # the annotation
    node: str  # empty: not bound yet
    phase: str
    reason: str
    message: str
    memory: str
    leaving: bool  # somebody has asked for its deletion
    scheduled: str  # why it is not, if it is not
    disrupted: str  # by whom, as the condition DisruptionTarget has it
    waiting: str  # why its container waits
    waiting_words: str
    running_since: datetime | None
    ended: Ended | None
    claims_gpus: bool = False
    made_at: datetime | None = None
    unscheduled_since: datetime | None = None  # the scheduler found no room for it then, on the one node that it may go to

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def over(self) -> bool:
        return self.ended is not None or self.phase in ("Succeeded", "Failed")

    @property
    def begun(self) -> bool:
        return self.running_since is not None or self.over

    @property
    def refused(self) -> bool:
        """It will never begin there: the node would not take it, or its image cannot be had."""
        if self.ended is not None or self.running_since is not None:
            return False
        if self.phase == "Failed":
            return self.reason not in NODE_ENDED
        return (self.waiting in NEVER_BEGAN or self.crowded_out) and not self.leaving

    @property
    def crowded_out(self) -> bool:
        """Somebody else's pod has taken its place since it was chosen. What is only about to leave has a moment to do so."""
        return not self.node and self.unscheduled_since is not None and datetime.now(UTC) - self.unscheduled_since > CROWDED_OUT


def slim_pod(told: Mapping[str, Any]) -> PodSeen:
    """Of the API server's JSON. What is not there is empty: another version may leave things out."""
    about, spec, status = told.get("metadata") or {}, told.get("spec") or {}, told.get("status") or {}
    found, notes = about.get("labels") or {}, about.get("annotations") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    scheduled, disrupted = conditions.get("PodScheduled") or {}, conditions.get("DisruptionTarget") or {}
    state = _state(status, MAIN) or {}
    waiting = _waiting_before(status) or state.get("waiting") or {}
    containers = spec.get("containers") or [{}]
    return PodSeen(
        namespace=str(about.get("namespace", "")), name=str(about.get("name", "")), uid=str(about.get("uid", "")),
        id=labelled_id(found), owner=str(found.get("gpufairy.io/owner", "")), role=str(found.get("gpufairy.io/role", "")),
        launch=str(notes.get(LAUNCH, "")), node=str(spec.get("nodeName") or ""), phase=str(status.get("phase", "")),
        reason=str(status.get("reason") or ""), message=str(status.get("message") or ""),
        memory=str(((containers[0].get("resources") or {}).get("limits") or {}).get("memory", "")),
        leaving="deletionTimestamp" in about,
        scheduled=str(scheduled.get("message") or "") if scheduled.get("status") == "False" else "",
        disrupted=str(disrupted.get("reason") or "") if disrupted.get("status") == "True" else "",
        waiting=str(waiting.get("reason") or ""), waiting_words=str(waiting.get("message") or ""),
        running_since=moment((state.get("running") or {}).get("startedAt")),
        ended=_ended(state.get("terminated")), claims_gpus=bool(spec.get("resourceClaims")),
        made_at=moment(about.get("creationTimestamp")), unscheduled_since=_unscheduled_since(spec, scheduled),
    )  # fmt: skip


def _unscheduled_since(spec: Mapping[str, Any], scheduled: Mapping[str, Any]) -> datetime | None:
    """Of one that may go to a single node. One that waits for a pool's next node waits for that, and one behind a gate for its turn."""
    pinned = bool((spec.get("affinity") or {}).get("nodeAffinity"))
    return moment(scheduled.get("lastTransitionTime")) if pinned and scheduled.get("reason") == "Unschedulable" else None


def _state(status: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((one.get("state") or {} for one in status.get("containerStatuses") or () if one.get("name") == name), None)


def _waiting_before(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why its init container, which copies our tools, waits or has failed. The container itself only says that it waits for that."""
    for one in status.get("initContainerStatuses") or ():
        state = one.get("state") or {}
        ended = state.get("terminated") or {}
        if state.get("waiting"):
            return dict(state["waiting"])
        if ended.get("exitCode"):
            words = f"exit code {ended['exitCode']}, {ended.get('reason', '')} {ended.get('message', '')}"
            return {"reason": NO_TOOLS, "message": f"the tools of gpufairy could not be copied into it: {words.strip()}"}
    return {}


def _ended(told: Mapping[str, Any] | None) -> Ended | None:
    if not told:
        return None
    code = told.get("exitCode")
    known = code if isinstance(code, int) and 0 <= code <= 255 else None
    return Ended(known, str(told.get("reason") or ""), str(told.get("message") or ""), moment(told.get("startedAt")))


def moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
