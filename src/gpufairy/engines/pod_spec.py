"""What a session's pod is made of: a pure function of values, from an allow-list. Nothing a user sent is merged in.

It meets Kubernetes' Pod Security Standard "restricted". The image's own ENTRYPOINT, CMD and USER are not used: the porter is the first
process, as on Docker, and runs as the session's owner.
"""
import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput, EngineRefused
from gpufairy.core.image_reference import full_name
from gpufairy.core.plain import session_from_plain, session_to_plain
from gpufairy.core.session import Session
from gpufairy.core.share import show_parts
from gpufairy.core.workload import WorkloadId
from gpufairy.engines.docker_facts import NO_FACTS, TOOLS_SHELL, group_text, passwd_text
from gpufairy.engines.docker_spec import MOST_SHM, PORTER, work_folder
from gpufairy.engines.pod_gpus import gpu_claim, gpu_environment, gpu_resources
from gpufairy.engines.pod_settings import ClaimFolder, PodSettings, ToolsBy
from gpufairy.engines.process_env import allowed

PREFIX = "gpufairy.io/"
SERVER, ROLE, SESSION_ID, ATTEMPT, OWNER, NAME, LAUNCH = (
    PREFIX + word for word in ("server", "role", "session", "attempt", "owner", "name", "launch")
)
# Whoever takes nodes away that are little used must not take a session along.
STAYS = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
SESSION_ROLE, FILES_ROLE = "session", "files"
FILES_OF = PREFIX + "files-of"  # the server's id; not SERVER: what they use is counted as others' use is, and not by any seat
MAIN = "main"  # the container
SECRET_FOLDER, OWN_FOLDER, TOKEN = "/run/fairy-secret", "/run/fairy", "/run/fairy/token"
RESULTS_BELOW = ".fairy/results"  # in the claim of the home
LONGEST_LAUNCH = 200 * 2**10  # bytes of an annotation; Kubernetes takes 256 KiB of all of them
# Set by an image, these would run inside our own programs, or widen what the session sees: blanked, whatever the image says.
BLANKED = ("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "SHELLOPTS", "BASHOPTS", "CUDA_MPS_PIPE_DIRECTORY")
# The tools' image has them at /opt/fairy, and links to these in its root: so it can also be mounted, as a whole, at /opt/fairy of another.
TOOLS_FOLDERS = ("bin", "lib", "libexec", "share")
# Folder by folder: the one that they are copied into is root's, and only its owner may set its mode.
COPY_TOOLS = (
    "/opt/fairy/bin/python3", "-I", "-c",
    "import os, shutil\n"
    "for name in os.listdir('/opt/fairy'):\n"
    "    shutil.copytree(f'/opt/fairy/{name}', f'/fairy-tools/{name}', symlinks=True, dirs_exist_ok=True, copy_function=shutil.copy)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Here:
    """What is known where one pod is made, beside the settings."""

    uid: int
    server_id: str
    tools_by: ToolsBy
    home_claim: str | None = None
    pool: str | None = None  # any node of it: the seat's own is only coming


def pod_name(session: Session) -> str:
    """Always the same for one attempt, so that a create whose answer was lost is found again."""
    owner = re.sub(r"[^a-z0-9]+", "-", session.owner).strip("-")
    return f"fairy-{owner}-{session.name}-{session.id}-{session.attempt}".lower()


def namespace_of(session: Session, settings: PodSettings) -> str:
    if not settings.namespace_for_each_team or not session.team:
        return settings.namespace
    return f"{settings.namespace}-{re.sub(r'[^a-z0-9]+', '-', session.team.lower()).strip('-')}"[:63].rstrip("-")


def labels(session: Session, server_id: str, settings: PodSettings) -> dict[str, str]:
    return {
        **settings.labels,
        ROLE: SESSION_ROLE, SERVER: server_id, SESSION_ID: session.id, ATTEMPT: str(session.attempt),
        OWNER: label_value(session.owner), NAME: session.name,
    }  # fmt: skip


def label_value(text: str) -> str:
    """A name of ours may end in - or _, and a label's value may not."""
    return text.rstrip("-_")


def labelled_id(found: Mapping[str, str]) -> WorkloadId | None:
    session_id, attempt = found.get(SESSION_ID, ""), found.get(ATTEMPT, "")
    return WorkloadId(session_id, int(attempt)) if session_id and attempt.isascii() and attempt.isdecimal() else None


def launch_text(session: Session) -> str:
    """It is the truth. Values of variables are left out: they may be secret, and lie in the pod's Secret. Raises EngineRefused."""
    names = tuple((name, "") for name, _ in session.request.env)
    bare = replace(session, request=replace(session.request, env=names))
    text = json.dumps(session_to_plain(bare), separators=(",", ":"))
    if len(text) > LONGEST_LAUNCH:
        found = f"the command of session {session.name} is longer than Kubernetes takes: {len(text)} bytes of {LONGEST_LAUNCH}"
        raise EngineRefused(found, "Put it into a file in your home.")
    return text


def labelled_session(annotation: str) -> Session | None:
    """None: not readable. What runs there is shown all the same. The values of its variables are empty here."""
    try:
        return session_from_plain(json.loads(annotation))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, BadInput):
        return None


def secret_body(session: Session, here: Here, settings: PodSettings, token: str) -> dict[str, Any]:
    """What only the session may read, under the pod's own name: its token, its user list, and the values of its variables."""
    texts = {
        "token": token,
        "passwd": passwd_text(NO_FACTS, session.owner, here.uid), "group": group_text(NO_FACTS, session.owner, here.uid),
        **{env_key(name): value for name, value in allowed(session.request.env)},
    }  # fmt: skip
    encoded = {key: base64.b64encode(text.encode("utf-8", "surrogateescape")).decode() for key, text in texts.items()}
    return {
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": True, "data": encoded,
        "metadata": {"name": pod_name(session), "labels": labels(session, here.server_id, settings)},
    }  # fmt: skip


def env_key(name: str) -> str:
    return f"env.{name}"


def pod_body(session: Session, here: Here, settings: PodSettings) -> dict[str, Any]:
    """The body of the create call."""
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(session), "labels": labels(session, here.server_id, settings),
            "annotations": {LAUNCH: launch_text(session), **STAYS},
        },
        "spec": {
            **confinement(here.uid, settings),
            **placement(session, here, settings),
            "hostname": session.name,
            **({} if not settings.runtime_class else {"runtimeClassName": settings.runtime_class}),
            **gpu_claim(session, settings.gpus, pod_name(session)),
            **tools_container(here.tools_by, settings),
            "containers": [container(session, here, settings)],
            "volumes": volumes(session, here, settings),
        },
    }  # fmt: skip


def confinement(uid: int, settings: PodSettings) -> dict[str, Any]:
    """The same for every pod of ours."""
    return {
        "restartPolicy": "Never", "automountServiceAccountToken": False, "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid, "fsGroup": uid, "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({} if not settings.pull_secret else {"imagePullSecrets": [{"name": settings.pull_secret}]}),
    }  # fmt: skip


def no_privileges() -> dict[str, Any]:
    return {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}}


def placement(session: Session, here: Here, settings: PodSettings) -> dict[str, Any]:
    """The planner's node, by name; or any of a pool of which a node is only coming. Binding stays with kube-scheduler."""
    tolerations = {"tolerations": [dict(one) for one in settings.tolerations]}
    if here.pool is not None:
        return {**tolerations, "nodeSelector": {settings.pool_label: here.pool}}
    if session.seat is None:
        return tolerations
    return {**tolerations, "affinity": on_node(session.seat.node)}


def on_node(name: str) -> dict[str, Any]:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [only]}}}


def container(session: Session, here: Here, settings: PodSettings) -> dict[str, Any]:
    seat = session.seat
    porter = [PORTER, "--workdir", work_folder(session), "--token", f"{SECRET_FOLDER}/token:{TOKEN}"]
    plain = {} if seat is None else {"cpu": f"{max(1, seat.cpus_milli)}m", "memory": str(seat.memory_bytes)}
    limits = {**plain, **gpu_resources(session, settings.gpus)}
    claims = {} if not gpu_claim(session, settings.gpus, "") else {"claims": [{"name": "gpu"}]}
    return {
        "name": MAIN,
        "image": full_name(session.request.image or settings.default_image),
        "imagePullPolicy": settings.pull_policy,
        "command": [*porter, "--", *map(literal, session.request.command)] if session.request.command else porter,
        "env": environment(session, settings),
        "resources": {"limits": limits, "requests": limits, **claims},
        "securityContext": no_privileges(),
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts(session, here, settings),
    }  # fmt: skip


def environment(session: Session, settings: PodSettings) -> list[dict[str, Any]]:
    home, gpus = f"/home/{session.owner}", () if session.seat is None else session.seat.gpus
    plain = {
        **dict.fromkeys(BLANKED, ""),
        "HOME": home, "USER": session.owner, "LOGNAME": session.owner, "SHELL": TOOLS_SHELL, "LANG": "C.UTF-8",
        "PIP_CACHE_DIR": f"{home}/.cache/pip", "PIP_FIND_LINKS": "/shared/wheels",
        "CONDA_PKGS_DIRS": f"{home}/.conda/pkgs,/shared/conda/pkgs", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    ours = {
        "FAIRY_SESSION": session.name, "FAIRY_SESSION_ID": session.id, "FAIRY_URL": settings.server_url, "FAIRY_TOKEN_FILE": TOKEN,
        "FAIRY_RESULTS": "/results", "FAIRY_TOOLS": "/opt/fairy/bin",
        "FAIRY_GPUS": ",".join(f"{gpu.index}:{gpu.profile or show_parts(gpu.parts)}" for gpu in gpus),
        **gpu_environment(session, settings.gpus),
    }  # fmt: skip
    asked = [name for name, _ in allowed(session.request.env)]
    return [
        *({"name": name, "value": value} for name, value in plain.items() if name not in asked),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": pod_name(session), "key": env_key(name)}}} for name in asked),
        *({"name": name, "value": literal(value)} for name, value in ours.items()),
    ]


def literal(text: str) -> str:
    """Kubernetes puts variables in for $(NAME), in commands too, and makes one $ of two."""
    return text.replace("$", "$$")


def mounts(session: Session, here: Here, settings: PodSettings) -> list[dict[str, Any]]:
    secret = [{"name": "secret", "mountPath": f"/etc/{name}", "subPath": name, "readOnly": True} for name in ("passwd", "group")]
    results = {"name": "home", "subPath": f"{RESULTS_BELOW}/{session.id}.{session.attempt}"} if here.home_claim else {"name": "results"}
    asked = [asked_mount(wanted, settings.folders) for wanted in session.request.mounts]
    return [
        {"name": "secret", "mountPath": SECRET_FOLDER, "readOnly": True}, {"name": "own", "mountPath": OWN_FOLDER}, *secret,
        {"name": "home", "mountPath": f"/home/{session.owner}"}, {**results, "mountPath": "/results"},
        {"name": "shm", "mountPath": "/dev/shm"}, {"name": "tools", "mountPath": "/opt/fairy", "readOnly": True},
        *([{"name": "shared", "mountPath": "/shared", "readOnly": True}] if settings.shared_claim else []),
        *asked,
    ]  # fmt: skip


def asked_mount(wanted: str, folders: Mapping[str, ClaimFolder]) -> dict[str, Any]:
    """Raises EngineRefused. Below a folder that others may write to nothing is mounted: a link there would lead anywhere in the claim."""
    name, _, below = wanted.partition("/")
    folder, offered = folders.get(name), f"Offered here: {', '.join(sorted(folders)) or 'none'}."
    if folder is None:
        raise EngineRefused(f"there is no folder {shown(name)} to mount", offered)
    if below and (folder.writable or any(part in ("", ".", "..") or not part.isprintable() for part in below.split("/"))):
        raise EngineRefused(f"{shown(wanted)} is no path that can be mounted from folder {name}", f"Mount {name}.")
    path = "/".join(part for part in (folder.path, below) if part)
    below_it = {"subPath": path} if path else {}
    return {"name": f"folder-{name}"[:63], "mountPath": f"/mnt/{wanted}", "readOnly": not folder.writable, **below_it}


def volumes(session: Session, here: Here, settings: PodSettings) -> list[dict[str, Any]]:
    memory = 0 if session.seat is None else session.seat.memory_bytes
    shm = max(64 * 2**20, min(memory // 2, MOST_SHM))  # PyTorch's loaders pass their batches there
    asked = {name: settings.folders[name] for name in dict.fromkeys(one.partition("/")[0] for one in session.request.mounts)}
    return [
        {"name": "secret", "secret": {"secretName": pod_name(session), "defaultMode": 0o440, "items": secret_items()}},
        {"name": "own", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(shm)}},
        claim_volume("home", here.home_claim) if here.home_claim else {"name": "home", "emptyDir": {}},
        *([] if here.home_claim else [{"name": "results", "emptyDir": {}}]),
        tools_volume(here.tools_by, settings),
        *([claim_volume("shared", settings.shared_claim, read_only=True)] if settings.shared_claim else []),
        *(claim_volume(f"folder-{name}"[:63], folder.claim, read_only=not folder.writable) for name, folder in asked.items()),
    ]


def secret_items() -> list[dict[str, Any]]:
    """Not the variables: whoever has them reads them in their environment."""
    return [{"key": "token", "path": "token"}, *({"key": name, "path": name, "mode": 0o444} for name in ("passwd", "group"))]


def claim_volume(name: str, claim: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, "readOnly": read_only}}


def tools_volume(by: ToolsBy, settings: PodSettings) -> dict[str, Any]:
    if by is ToolsBy.VOLUME:
        return {"name": "tools", "image": {"reference": settings.tools_image, "pullPolicy": settings.pull_policy}}
    return {"name": "tools", "emptyDir": {}}


def tools_container(by: ToolsBy, settings: PodSettings) -> dict[str, Any]:
    if by is ToolsBy.VOLUME:
        return {}
    little = {"cpu": "100m", "memory": "64Mi"}
    return {
        "initContainers": [{
            "name": "tools", "image": settings.tools_image, "imagePullPolicy": settings.pull_policy, "command": list(COPY_TOOLS),
            "resources": {"limits": {"cpu": "2", "memory": "256Mi"}, "requests": little}, "securityContext": no_privileges(),
            "volumeMounts": [{"name": "tools", "mountPath": "/fairy-tools"}],
        }]
    }  # fmt: skip
