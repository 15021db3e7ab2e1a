"""Which CPUs a workload is pinned to: as many as its seat says, the least taken first."""
from collections import Counter
from collections.abc import Collection, Iterable


def pick_cpus(cpus_milli: int, here: Collection[int], taken: Iterable[Collection[int]]) -> frozenset[int] | None:
    """None: no pinning, since the seat is less than a CPU (it would only crowd one) or is the whole machine."""
    wanted = -(-cpus_milli // 1000)
    if cpus_milli < 1000 or wanted >= len(here):
        return None
    load = Counter(cpu for cpus in taken for cpu in cpus)
    return frozenset(sorted(here, key=lambda cpu: (load[cpu], cpu))[:wanted])
