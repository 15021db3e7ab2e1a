"""Volumes by hand: folders of the node as PersistentVolumes of a class of their own, since nobody here provides them on demand."""
import contextlib
import secrets
import shutil
from collections.abc import Iterator

from kube.cluster import Cluster

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


@contextlib.contextmanager
def volumes(cluster: Cluster, count: int, *, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"), bind_first: bool = True) -> Iterator[str]:
    """The name of the class whose claims these bind to: at once, or (`bind_first=False`) when a pod that uses the claim has its node."""
    name = f"folders-{secrets.token_hex(3)}"
    mode = "Immediate" if bind_first else "WaitForFirstConsumer"
    cluster.put(STORAGE, {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
    places = [cluster.folder / "volumes" / f"{name}-{number}" for number in range(count)]
    try:
        for place in places:
            place.mkdir(parents=True)
            place.chmod(0o777)
            spec = {"capacity": {"storage": size}, "accessModes": [*modes], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": name, "hostPath": {"path": str(place)}}
            cluster.put(VOLUMES, {"metadata": {"name": place.name}, "spec": spec})
        yield name
    finally:
        for place in places:
            cluster.answer("DELETE", f"{VOLUMES}/{place.name}")
            shutil.rmtree(place, ignore_errors=True)
        cluster.answer("DELETE", f"{STORAGE}/{name}")
