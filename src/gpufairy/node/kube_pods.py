"""One question to the API server of Kubernetes: which pods are on this node? With limits on time and size."""
import http.client
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufairy.core.errors import EngineSilent, NotAllowed
from gpufairy.node.kube_access import KubeAccess
from gpufairy.node.kube_call import Connection, Status, asked
from gpufairy.node.proc_text import printable

ANSWER_S = 10.0  # for all pages
PAGE = 500  # pods; the kubelet's own limit is 110, and 250 or 500 where somebody raised it
MOST_PAGES = 20
MOST_BYTES = 16 * 2**20  # of all pages; a pod takes 5 to 20 KiB
LONGEST_NAME = 253  # as Kubernetes has it
LONGEST_CONTAINER, LONGEST_LABEL, MOST_LABELS = 63, 63, 100
STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
STATIC = "kubernetes.io/config.mirror"  # on what the API server shows of a static pod: the uid under which the kubelet runs it
UID = re.compile(r"[0-9a-f-]{32,36}")
CONTAINER_ID = re.compile(r"[a-z0-9.-]{1,40}://([0-9a-zA-Z-]{1,128})")  # containerd://0123…


@dataclass(frozen=True, slots=True)
class KubePod:
    uid: str
    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)  # id to name; init containers and ephemeral ones too
    runs_as: str = ""  # of a static pod: its uid on the node


def listed_pods(access: KubeAccess, node: str) -> list[KubePod]:
    """Those on the node. Raises EngineSilent or NotAllowed."""
    where = f"the API server at {access.host}:{access.port}"
    try:
        return list(_pages(access, node, time.monotonic() + ANSWER_S))
    except Status as error:
        raise _refusal(error, access, where, node) from error
    except ssl.SSLCertVerificationError as error:
        raise EngineSilent(f"{where} shows a certificate that {access.what} does not trust: {error.verify_message}.") from error
    except (OSError, http.client.HTTPException) as error:
        raise EngineSilent(f"{where} gave no answer ({error or type(error).__name__}), so names of pods may be missing.") from error
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise EngineSilent(f"{where} gave an answer that is no list of pods: {printable(str(error), 100)}.") from error


def _refusal(error: Status, access: KubeAccess, where: str, node: str) -> NotAllowed | EngineSilent:
    if error.status == http.client.UNAUTHORIZED:
        return NotAllowed(f"{where} does not know us by {access.what} (401).", "Is that of this cluster, and not expired?")
    if error.status == http.client.FORBIDDEN:
        return NotAllowed(f"{where} does not let us list pods of node {node} (403).", "Grant list on pods, as docs/monitoring.md shows.")
    return EngineSilent(f"{where} answered {error.status}: {printable(error.text[:200], 200)}.")


def _pages(access: KubeAccess, node: str, deadline_s: float) -> Iterator[KubePod]:
    # From the server's memory (resourceVersion 0): else each question of each node would be a walk through all pods in its database.
    wanted = {"fieldSelector": f"spec.nodeName={node}", "limit": str(PAGE)}
    more, had = {"resourceVersion": "0"}, 0
    connection = Connection(access, ANSWER_S)
    try:
        for _ in range(MOST_PAGES):
            path = f"/api/v1/pods?{urllib.parse.urlencode({**wanted, **more})}"
            text = asked(connection, "GET", path, deadline_s=deadline_s, most_bytes=MOST_BYTES, had_bytes=had)
            had += len(text)
            page = json.loads(text, object_hook=_slim)
            yield from (_pod(one) for one in page["items"])
            if not (following := page["metadata"].get("continue")):
                return
            more = {"continue": str(following)}
    finally:
        connection.close()
    raise http.client.HTTPException(f"more than {MOST_PAGES} pages")


def _slim(one: dict[str, Any]) -> dict[str, Any]:
    """Of each pod, as soon as it is read, only what is used: the whole of a list takes ten times its text in memory."""
    metadata = one.get("metadata")
    if not isinstance(metadata, dict) or "spec" not in one:
        return one
    return {"metadata": {**metadata, "managedFields": None}, "status": one.get("status")}


def _pod(one: Any) -> KubePod:
    metadata, status = one["metadata"], one.get("status") or {}
    uid = str(metadata["uid"])
    if not UID.fullmatch(uid):
        raise ValueError(f"uid {uid[:60]!r}")
    runs_as = str((metadata.get("annotations") or {}).get(STATIC, ""))
    name, namespace = (printable(str(metadata[part]), LONGEST_NAME) for part in ("name", "namespace"))
    return KubePod(uid, name, namespace, _labels(metadata.get("labels") or {}), dict(_containers(status)), runs_as)


def _containers(status: Any) -> Iterator[tuple[str, str]]:
    """Those that were started: the others have no id yet."""
    for told in (one for part in STATUSES for one in status.get(part) or ()):
        if found := CONTAINER_ID.fullmatch(str(told.get("containerID"))):
            yield found[1], printable(str(told["name"]), LONGEST_CONTAINER)


def _labels(told: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in list(told.items())[:MOST_LABELS] if isinstance(value, str) and len(value) <= LONGEST_LABEL}
