"""Our families of processes on GPUs and of sessions: the contract's words as numbers, whose they are, and who came past the queue."""
from collections import Counter

from gpufairy.core.node_sample import NodeSample, ProcessReading
from gpufairy.node.render_contract import on_devices, usable_labels
from gpufairy.node.render_text import Text, gauge, labelled

MEMORY = gauge("fairy_process_gpu_memory_bytes", "GPU memory that the process holds.")
ACTIVE = gauge("fairy_process_active", "1 if the process used its GPU within the window, 0 if it did not; no series where nobody can tell.")
UTILIZATION = gauge("fairy_process_gpu_utilization_ratio", "Part of the time in which the process kept the GPU busy.")
MEMORY_UTILIZATION = gauge("fairy_process_gpu_memory_utilization_ratio", "Part of the time in which the process read or wrote GPU memory.")
STARTED = gauge("fairy_process_start_time_seconds", "When the process began, in seconds since 1970.")
OUTSIDE = gauge("fairy_outside_processes", "Processes on a GPU outside any session and pod, by user; empty where that is not known.")
SESSION_INFO = gauge("fairy_session_info", "Name and user of a session with processes on a GPU of this host.")
SESSION_CPUS = gauge("fairy_session_cpus_used", "CPUs that the session's processes use.")
SESSION_MEMORY = gauge("fairy_session_memory_bytes", "Memory of the host that the session's processes hold.")


def put_processes(text: Text, sample: NodeSample) -> None:
    if not sample.gpus_known:
        return
    rows = on_devices(sample.processes, usable_labels(sample))
    for (gpu, _), one in rows.items():
        put_process(text, gpu, one)
    outside = Counter((gpu, one.owner.user or "") for (gpu, _), one in rows.items() if one.owner.outside)
    for (gpu, user), count in outside.items():
        text.put(OUTSIDE, labelled(gpu=gpu, user=user), count)


def put_process(text: Text, gpu: str, one: ProcessReading) -> None:
    owner = one.owner
    labels = labelled(gpu=gpu, pid=str(one.on.pid), user=owner.user or "", session=owner.session or "", container=owner.container)
    text.put(MEMORY, labels, one.on.memory_bytes)
    text.put(ACTIVE, labels, one.active)
    text.put(UTILIZATION, labels, one.on.utilisation)
    text.put(MEMORY_UTILIZATION, labels, one.on.memory_utilisation)
    text.put(STARTED, labels, one.process.started_s)


def put_sessions(text: Text, sample: NodeSample) -> None:
    for one in sample.processes:
        owner = one.owner
        if owner.session_id is not None:
            text.put(SESSION_INFO, labelled(session_id=owner.session_id, session=owner.session or "", user=owner.user or ""), 1)
    for session in sample.sessions:
        labels = labelled(session_id=session.session_id)
        text.put(SESSION_CPUS, labels, session.cpus)
        text.put(SESSION_MEMORY, labels, session.memory_bytes)
