"""What of a host is counted beside its GPUs: CPU or memory, whichever the mix of requests leaves shorter. The other is only a filter."""
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpufairy.core.placement_mix import WHOLE

COARSE = 64  # grains of the largest host: enough where GPUs run out before it
FINE = 256  # where the host runs out first, rounding it is what is lost


@dataclass(frozen=True, slots=True)
class Host:
    asked: Callable[[Any], int]  # of a pod
    free: Callable[[Any], NDArray[np.int64]]  # of a cluster, by node
    caps: list[int]  # of each node


def hosts_of(cluster: Any) -> list[Host]:
    """CPU, and memory where the cluster tells of it. Without `mem_cap` what is free now is taken for all there is."""
    hosts = [Host(attrgetter("cpu"), attrgetter("cpu_free"), cluster.cpu_cap.tolist())]
    memory = getattr(cluster, "mem_cap", getattr(cluster, "mem_free", None))
    if memory is not None:
        hosts.append(Host(attrgetter("memory"), attrgetter("mem_free"), memory.tolist()))
    return hosts


def scarcer(pods: Iterable[Any], hosts: list[Host]) -> Host:
    """The one of which the pods ask the larger part of all there is; of equals CPU. Only pods with GPUs count: room is kept for them."""
    asking = [pod for pod in pods if pod.num_gpu]
    known = hosts if all(hasattr(pod, "memory") for pod in asking[:1]) else hosts[:1]
    return max(known, key=lambda host: sum(map(host.asked, asking)) / max(sum(host.caps), 1))


def grains_for(pods: Iterable[Any], host: Host, gpus: int) -> int:
    """By which of the two the pods, without an end to them, would use up first: the GPUs or the host."""
    there = list(pods)
    of_gpus = sum(pod.num_gpu * pod.gpu_milli for pod in there) / max(gpus * WHOLE, 1)
    of_host = sum(map(host.asked, there)) / max(sum(host.caps), 1)
    return FINE if of_host > of_gpus else COARSE
