"""A part of a GPU by DRA on the real kubelet: what it adds to the start of a pod, how long the driver itself takes, and its memory."""
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, Report
from bench.kube_client import shared
from kube.dra_scene import DraScene, dra_scene, two_gpus
from waits import until

PODS = 20
GOAL_ADDED_MS = 20.0
POD_S = 60.0


def measure() -> Report:
    with shared() as cluster, tempfile.TemporaryDirectory() as folder, dra_scene(cluster, Path(folder), two_gpus()) as scene:
        scene.share("first")  # so that all is loaded
        scene.runs("first")
        scene.clear()
        bare, with_share = [], []
        for number in range(PODS):  # one after the other in turns: the machine has other work, too
            bare.append(started_ms(scene, f"bare-{number}", claimed=False))
            with_share.append(started_ms(scene, f"share-{number}", claimed=True))
        ready_ms = [float(found) for found in re.findall(r"is ready \((\d+) ms\)", scene.agent.log)]
        memory_mib, without_mib = rss_mib(scene), rss_without_mib(scene)
    plain, shares = statistics.median(bare), statistics.median(with_share)
    added, driver = f"{shares:.0f} ms and {plain:.0f} ms", f"the most: {max(ready_ms):.0f} ms"
    peer = {"peer": "the agent without --dra", "peer_value": without_mib}
    return Report("dra", [
        Figure("a share adds to the start of a pod, median", shares - plain, "ms", GOAL_ADDED_MS, higher_is_better=False, note=added),
        Figure("prepare, by the driver, median", statistics.median(ready_ms), "ms", higher_is_better=False, note=driver),
        Figure("memory of the agent as driver", memory_mib, "MiB", higher_is_better=False, **peer),
    ])  # fmt: skip


def started_ms(scene: DraScene, name: str, *, claimed: bool) -> float:
    """From the create call until its process begins, as the kernel has it: the kubelet looks for what has changed once a second only."""
    if claimed:
        scene.claim(name, {"memory": "1Gi", "cores": "1"})
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    scene.pod(name, *([name] if claimed else []))
    scene.runs(name)
    ticks = int(Path(f"/proc/{scene.pid(name)}/stat").read_text().rpartition(")")[2].split()[19])
    took_ms = 1000 * (ticks / os.sysconf("SC_CLK_TCK") - began_s)
    scene.delete(name)
    until(lambda: scene.cluster.answer("GET", scene.path(name))[0] == 404 and not scene.held(), f"{name} to go", POD_S)
    return took_ms


def rss_mib(scene: DraScene) -> float:
    assert scene.agent.process is not None
    told = Path(f"/proc/{scene.agent.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", told)
    assert found is not None
    return int(found[1]) / 1024


def rss_without_mib(scene: DraScene) -> float:
    """The same agent, that only watches."""
    scene.agent.end()
    scene.agent = scene.watcher()
    with scene.agent:
        until(lambda: "no answer from the server" in scene.agent.log, "its first report", POD_S)
        time.sleep(3)
        return rss_mib(scene)
