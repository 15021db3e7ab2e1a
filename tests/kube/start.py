"""Starts and ends clusters. The one with a real node is shared by all test processes of a machine: whoever comes first starts it, whoever leaves last ends it."""
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from bench.ports import free_port

from daemons import left_over
from kube.certificates import Authority
from kube.cluster import Cluster
from kube.control_plane import start_control_plane
from kube.node import BRIDGE, CNI, DEVICE_PLUGINS, NODE_ADDRESS, NODE_NAME, end_pods, make_networks, remove_node, start_node
from kube.parts import CONTROL_PLANE, NODE, CannotBuild, parts
from kube.processes import stop

FOLDER = Path(tempfile.gettempdir()) / "fairy-kube"  # short: a socket's path has at most 107 bytes
PROGRAMS = {"runc": "runc", "iptables": "iptables", "nft": "nftables", "ip": "iproute2", "cc": "gcc libc6-dev", "busybox": "busybox-static", "umount": "mount"}


@pytest.fixture(scope="module")
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """With a real node, which has two processors and a kubelet that tests restart: for one module at a time, over all test processes."""
    with FOLDER.with_suffix(".turn").open("a") as turn, held(turn):
        yield shared_cluster


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Ended by whoever leaves last. Make namespaces of your own."""
    check_machine()
    programs = programs_of(*CONTROL_PLANE, *NODE)
    with FOLDER.with_suffix(".start").open("a") as starting, FOLDER.with_suffix(".users").open("a") as users:
        with held(starting):
            if is_alone(users):
                end_shared()  # what a run left that was killed
                try:
                    start_shared(programs)
                except BaseException:
                    end_shared()
                    raise
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield Cluster.load(FOLDER)
        finally:
            with held(starting):
                fcntl.flock(users, fcntl.LOCK_UN)
                if is_alone(users):
                    end_shared()


@pytest.fixture(scope="module")
def lone_cluster() -> Iterator[Cluster]:
    """A control plane for one module alone, without a real node: fill it with pretended ones, or break it."""
    with control_plane() as made:
        yield made


@contextlib.contextmanager
def control_plane() -> Iterator[Cluster]:
    programs = programs_of(*CONTROL_PLANE)
    folder = Path(tempfile.mkdtemp(prefix="fairy-cp-"))
    try:
        made = Cluster(folder, free_port(), "", Path(), "")
        start_control_plane(made, Authority(folder), programs)
        made.save()
        yield made
    finally:
        end(folder)


@contextlib.contextmanager
def held(lock: TextIO) -> Iterator[None]:
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def is_alone(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def check_machine() -> None:
    if os.geteuid() != 0:
        pytest.skip("a Kubernetes of our own needs root")
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            pytest.skip(f"no {program}: apt-get install {package}")
    if not (CNI / "bridge").exists():
        pytest.skip(f"no {CNI}/bridge: apt-get install containernetworking-plugins")
    if any((DEVICE_PLUGINS.parent / name).exists() for name in ("config.yaml", "pods", "pki")):
        pytest.skip("this machine has a kubelet of its own, whose device plugins ours would take away")


def programs_of(*names: str) -> dict[str, Path]:
    """Built first, where they are not yet; the test is skipped where they cannot be."""
    try:
        return parts(names)
    except CannotBuild as error:
        pytest.skip(str(error))
        raise


def start_shared(programs: dict[str, Path]) -> None:
    FOLDER.mkdir(mode=0o700)  # the keys of whoever may start anything here
    cluster, authority = Cluster(FOLDER, free_port(), NODE_NAME, programs["ctr"], BRIDGE, NODE_ADDRESS), Authority(FOLDER)
    make_networks()
    start_control_plane(cluster, authority, programs)
    start_node(cluster, authority, programs)
    cluster.save()


def end_shared() -> None:
    """All of it, and what a run left that was killed."""
    stop(FOLDER, "kubelet")  # first, or it starts pods again
    with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError, KeyError):
        end_pods(Cluster.load(FOLDER))
    end(FOLDER)
    remove_node()


def end(folder: Path) -> None:
    for name in ("karpenter-kwok", "kwok", "kube-proxy", "kube-scheduler", "kube-controller-manager", "containerd", "kube-apiserver", "etcd"):
        stop(folder, name)
    for pid in left_over(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
