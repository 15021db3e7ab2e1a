"""The doctor's whole look at this machine: facts gathered all at once, within a time limit. What gives no answer is not known."""
import asyncio
import ipaddress
import os
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from gpufairy.client import local_server
from gpufairy.client.connection import config_folder
from gpufairy.core.doctor_facts import DataFacts, EngineFacts, Facts, GpuFacts, HostFacts, KubeFacts, MetricsFacts, MpsFacts, PortFact
from gpufairy.core.doctor_os import Os, parse_os_release
from gpufairy.core.errors import FairyError
from gpufairy.engines.kube_doctor import KubeWanted, kube_facts
from gpufairy.main import ports, ssh
from gpufairy.main.containers import USUAL_SOCKETS
from gpufairy.main.upkeep_places import backups_folder
from gpufairy.node.aside import Aside
from gpufairy.node.doctor_data import data_facts
from gpufairy.node.doctor_engine import engine_facts
from gpufairy.node.doctor_gpus import gpu_facts, mps_facts
from gpufairy.node.doctor_host import host_facts, pids_match, port_state, strange_pids
from gpufairy.node.doctor_watch import PROMETHEUS, metrics_facts
from gpufairy.node.host_files import read_text
from gpufairy.store.backup import list_backups
from gpufairy.wire.config import Config

LONGEST_S = 20.0  # of all groups together: a hung driver takes twelve
OS_RELEASES = ("/etc/os-release", "/usr/lib/os-release")


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at, and how."""

    data: Path
    config: Config
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    prometheus: str = PROMETHEUS
    kubernetes: bool = False  # sessions are pods
    http_port: int | None = None  # that our server has now; None: not known to run
    ssh_port: int | None = None
    url: str = ""  # by which people reach the server; empty: not known
    longest_s: float = LONGEST_S


def looked_at(patient: Patient) -> Facts:
    """Takes some seconds: call it from a thread."""
    groups = gatherers(patient)
    found = Aside[str, Any](lambda name: groups[name](), "doctor").answers(groups, patient.longest_s)
    facts = Facts(os=this_os(), data=DataFacts(folder=str(patient.data)))
    for name, value in found.items():
        facts = replace(facts, **{name: value})
    return with_pids(facts)


def gatherers(patient: Patient) -> dict[str, Callable[[], Any]]:
    """By the field of Facts that each fills."""
    gathered: dict[str, Callable[[], Any]] = {
        "gpu": gpu_facts,
        "mps": partial(mps_facts, patient.data),
        "engine": partial(engine_facts, sockets(patient)),
        "data": partial(whole_data, patient),
        "host": partial(whole_host, patient),
        "metrics": partial(metrics_facts, pages(patient), patient.prometheus),
        "kube": lambda: asyncio.run(kube_facts(kube_wanted(patient), patient.env)),
    }
    empty = {**EMPTY, "data": DataFacts(folder=str(patient.data))}
    return {name: partial(quietly, gather, empty[name]) for name, gather in gathered.items()}


EMPTY: dict[str, Any] = {
    "gpu": GpuFacts(), "mps": MpsFacts(), "engine": EngineFacts(), "host": HostFacts(), "metrics": MetricsFacts(),
    "kube": KubeFacts(),
}  # fmt: skip


def quietly(gather: Callable[[], Any], empty: Any) -> Any:
    """What this account may not look at is not known."""
    try:
        return gather()
    except (OSError, FairyError):
        return empty


def this_os() -> Os:
    text = next((found for path in OS_RELEASES if (found := read_text(path))), "")
    return parse_os_release(text, root=os.geteuid() == 0)


def sockets(patient: Patient) -> list[str]:
    named = patient.env.get("DOCKER_HOST", "").removeprefix("unix://")
    return [patient.config.docker.socket] if patient.config.docker.socket else [*([named] if named.startswith("/") else []), *USUAL_SOCKETS]


def pages(patient: Patient) -> list[str]:
    return [] if patient.http_port is None else [f"http://127.0.0.1:{patient.http_port}/metrics"]


def kube_wanted(patient: Patient) -> KubeWanted:
    wanted = patient.config.kubernetes
    homes, namespace = wanted.homes, wanted.namespace
    return KubeWanted(
        wanted.kubeconfig or "", wanted.context or "", namespace, homes.storage_class, homes.access != "none", in_use=patient.kubernetes
    )


def whole_data(patient: Patient) -> DataFacts:
    found = data_facts(patient.data, store=patient.config.server.store or "", config_folder=config_folder(patient.env))
    folder = backups_folder(patient.data, patient.config)
    try:
        made = (
            [one.made_at for one in list_backups(folder) if one.manifest is not None and one.made_at is not None] if folder.is_dir() else []
        )
    except FairyError:
        return found
    age = max(timedelta(), datetime.now(UTC) - max(made)) if made else None
    return replace(found, backups_kept=bool(made), backup_age=age)


def whole_host(patient: Patient) -> HostFacts:
    url_name = urllib.parse.urlsplit(patient.url or patient.config.server.url or "").hostname or ""
    found = host_facts("" if is_address(url_name) else url_name, partial(own_ports, patient))
    return replace(found, server_runs_here=patient.http_port is not None, ssh_off=not patient.config.ssh.enabled)


def is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def own_ports(patient: Patient) -> tuple[PortFact | None, PortFact | None]:
    server, wanted = patient.config.server, patient.config.ssh
    http = port_state(
        server.listen, patient.http_port or server.port or ports.FIRST_PORT,
        asked=server.port is not None, ours=patient.http_port is not None, taken_by=ports.taken_by,
    )  # fmt: skip
    if not wanted.enabled:
        return http, None
    port = patient.ssh_port or wanted.port or ssh.FIRST_PORT
    ours = patient.ssh_port is not None
    return http, port_state(wanted.listen or server.listen, port, asked=wanted.port is not None, ours=ours, taken_by=ports.taken_by)


def with_pids(facts: Facts) -> Facts:
    """What the driver told, held against /proc."""
    pids = [pid for gpu in facts.gpu.gpus for pid in gpu.pids]
    strange = strange_pids(pids) if facts.gpu.gpus else None
    return replace(facts, host=replace(facts.host, pids_match=pids_match(facts.gpu.driver), strange_pids=strange))


def running_here(data: Path, env: Mapping[str, str]) -> tuple[int | None, int | None, str]:
    """Ports of page and SSH of the server that runs on this data folder, and its address. None: none is known to run."""
    try:
        server = local_server.find_running(env, data)
    except (FairyError, OSError):
        return None, None, ""
    if server is None:
        return None, None, ""
    noted = urllib.parse.urlsplit(server.own_url or server.url)
    gateway = ssh.read_note(data / "ssh")
    return noted.port or (443 if noted.scheme == "https" else 80), None if gateway is None else gateway.port, server.url
