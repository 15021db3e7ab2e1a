"""The workload that a pod is."""
from datetime import datetime

from gpufairy.core.session import Session
from gpufairy.core.workload import Workload, WorkloadState
from gpufairy.engines.pod_seen import PodSeen
from gpufairy.engines.pod_words import why_over, why_waiting


def workload_of(
    pod: PodSeen, session: Session | None, *,
    stopped: bool, silent_since: datetime | None = None, coming: str | None = None, warned: str = "",
) -> Workload | None:  # fmt: skip
    """`stopped`: by us. `coming`: what is said of a node that is not there yet. `warned`: what its events say.

    None: the labels cannot be read."""
    if pod.id is None:
        return None
    node = pod.node or ("" if session is None or session.seat is None else session.seat.node)
    if pod.over or pod.refused:
        began = pod.ended.started_at if pod.ended is not None else pod.running_since
        code = pod.ended.code if pod.ended is not None else None
        why = why_waiting(pod) if pod.refused else why_over(pod, stopped=stopped)
        return Workload(
            pod.id, node, WorkloadState.EXITED, exit_code=code, why=why, started_at=began, session=session, refused=pod.refused,
            crowded_out=pod.crowded_out,
        )  # fmt: skip
    if pod.running_since is not None:
        return Workload(pod.id, node, WorkloadState.RUNNING, started_at=pod.running_since, session=session, silent_since=silent_since)
    why = coming or why_waiting(pod, warned)
    return Workload(pod.id, node, WorkloadState.STARTING, why=why, session=session, bound=bool(pod.node), silent_since=silent_since)

