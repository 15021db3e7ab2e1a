"""The agent as the DRA driver of the real node, over pretended GPUs, and claims made past our engine. One at a time on a machine."""
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_nvml import FakeGpu, FakeInstance, FakeMachine, FakeNvml
from journeys.collector_scene import Collector
from kube.cluster import Cluster, sleeping
from kube.control_plane import write_kubeconfig
from kube.processes import kill_and_start
from waits import until

RESOURCES = "/apis/resource.k8s.io/v1"
SLICES = f"{RESOURCES}/resourceslices"
POD_S = 40.0
QUARTER = {"memory": "10Gi", "cores": "25"}
# All that the driver needs of the API server; the agent beside it lists pods.
DRIVER_RIGHTS = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["create", "delete", "list", "update", "watch"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
)


class DraScene:
    def __init__(self, cluster: Cluster, folder: Path, machine: FakeMachine) -> None:
        self.cluster, self.folder = cluster, folder
        self.namespace = f"dra-{os.getpid()}"
        self.driver = FakeNvml(folder)
        self.show(machine)
        self.kubeconfig = self._with_its_rights()
        self.agent = self.watcher("--dra", "--cdi", str(cluster.cdi))

    def watcher(self, *more: str) -> Collector:
        """An agent that hands out nothing."""
        words = ("agent", "--server", "http://127.0.0.1:9", "--every", "0.5s", "--kubelet", str(self.cluster.kubelet))
        env = {"NODE_NAME": self.cluster.node, "KUBECONFIG": str(self.kubeconfig)}
        return Collector(self.folder / "agent", *words, *more, fake=self.driver, env=env)

    def _with_its_rights(self) -> Path:
        """A kubeconfig by which one may do what the driver needs, and no more."""
        rights, name = "/apis/rbac.authorization.k8s.io/v1", self.namespace
        self.cluster.namespace(name)
        self.cluster.put(f"{rights}/clusterroles", {"metadata": {"name": name}, "rules": [*DRIVER_RIGHTS]})
        of, to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, {"kind": "ServiceAccount", "name": "default", "namespace": name}
        self.cluster.put(f"{rights}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": of, "subjects": [to]})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.cluster.ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts/default/token", request)["status"]["token"]
        path = self.cluster.folder / f"{name}.json"  # beside the certificate that it names
        write_kubeconfig(self.cluster, path, {"token": token})
        return path

    def show(self, machine: FakeMachine) -> None:
        """To the driver, and by NVIDIA's own CDI file, whose devices here are a variable each."""
        self.machine = machine.named()
        self.driver.write(machine)
        uuids = [one.uuid for gpu in self.machine.gpus for one in (gpu, *gpu.instances)]
        devices = [{"name": uuid, "containerEdits": {"env": [f"VENDOR_{place}={uuid}"]}} for place, uuid in enumerate(uuids)]
        beside = self.cluster.cdi / "nvidia.new"
        beside.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices}))
        beside.replace(self.cluster.cdi / "nvidia.json")

    @property
    def claims_folder(self) -> Path:
        return self.cluster.kubelet / "plugins" / "gpu.fairy" / "claims"

    def slices(self) -> list[dict[str, Any]]:
        return self.cluster.ask("GET", f"{SLICES}?fieldSelector=spec.driver%3Dgpu.fairy")["items"]

    def devices(self) -> list[dict[str, Any]]:
        return [device for one in self.slices() for device in one["spec"].get("devices", ())]

    def offered(self) -> None:
        wanted = {one.uuid for gpu in self.machine.gpus for one in (gpu.instances if gpu.mig else (gpu,))}
        found = lambda: {one["attributes"]["uuid"]["string"] for one in self.devices()} == wanted  # noqa: E731
        self.until(found, f"{wanted} to be offered")

    def claim(self, name: str, *amounts: dict[str, str] | None, gpu: str = "") -> None:
        """A request for each amount; of the GPU alone, if one is named. None: of all that it has."""
        selectors = [{"cel": {"expression": f"device.attributes['gpu.fairy'].uuid == '{gpu}'"}}] if gpu else []
        exactly = [{"deviceClassName": "gpu.fairy", "selectors": selectors, **({} if one is None else {"capacity": {"requests": one}})} for one in amounts]
        requests = [{"name": f"gpu-{place}", "exactly": one} for place, one in enumerate(exactly)]
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        self.cluster.ask("POST", f"{RESOURCES}/namespaces/{self.namespace}/resourceclaims", body)

    def pod(self, name: str, *claims: str, containers: int = 1, grace_s: int = 0, **of_container: Any) -> None:
        """On the node, by the scheduler; each container has all of the claims."""
        named = [{"name": claim} for claim in claims]
        made = [sleeping(f"c{place}", resources={"claims": named}, **of_container) for place in range(containers)]
        spec = {"nodeName": None, "terminationGracePeriodSeconds": grace_s, "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims]}
        self.cluster.ask("POST", f"/api/v1/namespaces/{self.namespace}/pods", self.cluster.a_pod(name, *made, **spec))

    def share(self, name: str, amount: dict[str, str] | None = QUARTER, gpu: str = "", **more: Any) -> None:
        """A claim and a pod of that name."""
        self.claim(name, amount, gpu=gpu)
        self.pod(name, name, **more)

    def until(self, look: Callable[[], Any], what: str) -> Any:
        try:
            return until(look, what, POD_S)
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.agent.log[-3000:]}") from None

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def runs(self, *names: str) -> None:
        for name in names:
            self.until(lambda name=name: self.cluster.is_running(self.path(name)), f"pod {name} to run")

    def why_not(self, name: str) -> str:
        """Why the scheduler finds no node for it."""
        conditions = self.cluster.ask("GET", self.path(name))["status"].get("conditions", ())
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), "")

    def delete(self, *names: str, grace_s: int | None = 0) -> None:
        for name in names:
            self.cluster.answer("DELETE", self.path(name) + ("" if grace_s is None else f"?gracePeriodSeconds={grace_s}"))
            self.cluster.answer("DELETE", f"{RESOURCES}/namespaces/{self.namespace}/resourceclaims/{name}")

    def clear(self) -> None:
        """All of this scene's, until the driver holds nothing any more."""
        names = [one["metadata"]["name"] for one in self.cluster.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]]
        self.delete(*names)
        for one in self.cluster.ask("GET", f"{RESOURCES}/namespaces/{self.namespace}/resourceclaims")["items"]:
            self.cluster.answer("DELETE", f"{RESOURCES}/namespaces/{self.namespace}/resourceclaims/{one['metadata']['name']}")
        self.until(lambda: not self.held(), "all to be given back")

    def restart_kubelet(self) -> None:
        """Killed, and started as it was."""
        taken = self.agent.log.count("has taken the driver")
        kill_and_start(self.cluster.folder, "kubelet")
        self.until(lambda: self.agent.log.count("has taken the driver") > taken, "the kubelet to take the driver")

    def inside(self, name: str, container: str = "c0") -> Path:
        """The root folder of a container, as its first process has it."""
        return Path(f"/proc/{self.pid(name, container)}/root")

    def pid(self, name: str, container: str = "c0") -> int:
        return self.cluster.pid(self.cluster.ask("GET", self.path(name)), container)

    def environment(self, name: str, container: str = "c0") -> dict[str, str]:
        text = Path(f"/proc/{self.pid(name, container)}/environ").read_bytes()
        return dict(part.decode().split("=", 1) for part in text.split(b"\0") if part)

    def held(self) -> Counter[str]:
        """MiB by GPU, as the CDI files of this moment say: read past the driver."""
        found: Counter[str] = Counter()
        for path in self.cluster.cdi.glob("gpu.fairy-*.json"):
            try:
                env = json.loads(path.read_text())["devices"][0]["containerEdits"]["env"]
            except FileNotFoundError:  # just given back
                continue
            for told in next(one for one in env if one.startswith("FAIRY_SHARE=")).partition("=")[2].split(","):
                uuid, amount = told.split("=")
                found[uuid] += int(re.fullmatch(r"(\d+)MiB/\d+%", amount)[1])
        return found


@contextmanager
def dra_scene(cluster: Cluster, folder: Path, machine: FakeMachine) -> Iterator[DraScene]:
    scene = DraScene(cluster, folder, machine)
    cluster.put(f"{RESOURCES}/deviceclasses", {"metadata": {"name": "gpu.fairy"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.fairy'"}}]}})
    try:
        with scene.agent:
            scene.offered()
            yield scene
            scene.clear()
    finally:
        (cluster.cdi / "nvidia.json").unlink(missing_ok=True)
        for one in scene.slices():
            cluster.answer("DELETE", f"{SLICES}/{one['metadata']['name']}")
        for kind in ("clusterroles", "clusterrolebindings"):
            cluster.answer("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{scene.namespace}")
        cluster.answer("DELETE", f"/api/v1/namespaces/{scene.namespace}")


def two_gpus() -> FakeMachine:
    return FakeMachine((FakeGpu(), FakeGpu()))


def one_cut() -> FakeMachine:
    """A whole one, and one in MIG mode with two instances."""
    cut = (FakeInstance(1, slot=0, profile="3g.20gb", start=4, size=4, memory_mib=19968), FakeInstance(7, slot=1, profile="1g.5gb", start=0))
    return FakeMachine((FakeGpu(), FakeGpu(mig=True, instances=cut)))
