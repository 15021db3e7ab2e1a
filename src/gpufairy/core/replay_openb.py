"""One pod of an openb pod list (Alibaba's GPU trace of 2023) as a job. The trace has no users."""
from collections.abc import Mapping

from gpufairy.core.amounts import LARGEST_SIZE, shown
from gpufairy.core.errors import BadInput
from gpufairy.core.replay_cells import duration_of, number_of, time_of
from gpufairy.core.replay_job import Job
from gpufairy.core.session import Request
from gpufairy.core.share import MOST_GPUS, NO_GPU, PARTS, Share, ShareKind

COLUMNS = {"num_gpu", "gpu_milli", "cpu_milli"}  # by these a pod list is known
WHOLE = 1000  # thousandths of one GPU
MIB = 2**20
LONGEST_NAME = 100


def openb_job(row: Mapping[str, str], line: int) -> Job | None:
    """A pod of Alibaba's trace. Of several kinds that it may run on, the first is asked for."""
    started, ended = row.get("scheduled_time") or row.get("creation_time") or "", row.get("deletion_time") or ""
    if not ended:
        raise BadInput("has no deletion_time, so nobody knows how long it ran")
    if not row.get("scheduled_time"):
        return None
    lasted = (number_of(ended) or 0.0) - (number_of(started) or 0.0)
    kinds = [kind for kind in (row.get("gpu_spec") or "").split("|") if kind]
    request = Request(
        share=openb_share(row), cpus_milli=int(amount_of(row, "cpu_milli")), gpu_kind=kinds[0] if kinds else None,
        memory_bytes=int(amount_of(row, "memory_mib") * MIB),
    )  # fmt: skip
    submit = time_of(row.get("creation_time") or started, 1)
    return Job(line, (row.get("name") or f"line-{line}")[:LONGEST_NAME], "", submit, duration_of(str(lasted), 1, "duration"), request)


def amount_of(row: Mapping[str, str], column: str) -> float:
    """Some pods of the trace ask for no memory at all."""
    amount = number_of(row.get(column) or "0")
    if amount is None or not 0 <= amount * MIB <= LARGEST_SIZE:
        raise BadInput(f"{column}: {shown(row[column])} is no amount")
    return amount


def openb_share(row: Mapping[str, str]) -> Share:
    gpus, milli = number_of(row.get("num_gpu") or ""), number_of(row.get("gpu_milli") or "")
    if gpus is None or milli is None or not 0 <= gpus <= MOST_GPUS or not 0 <= milli <= WHOLE:
        raise BadInput(f"num_gpu {shown(row.get('num_gpu', ''))} and gpu_milli {shown(row.get('gpu_milli', ''))} are no GPUs")
    if not gpus or not milli:
        return NO_GPU
    if gpus == 1 and milli < WHOLE:
        return Share(ShareKind.FRACTION, int(milli) * PARTS // WHOLE)
    return Share(ShareKind.WHOLE, int(gpus) * PARTS)
