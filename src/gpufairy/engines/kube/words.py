"""Requests and refusals in words: from a method and a path to "create pod ml/train-0", from a Status to a sentence and what to do."""
import json
from typing import Any

from gpufairy.engines.kube.errors import Cause, KubeRefused

VERBS = {"GET": "get", "POST": "create", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}
LONGEST_MESSAGE = 1000  # characters; a validation error repeats the whole value
ONE_OF = {"policies": "policy", "classes": "class", "capacities": "capacity"}  # endings of words that lose more than an s


def described(method: str, path: str, name: str = "") -> str:
    """What is asked of which thing; `name`: of what is being made."""
    words = [word for word in path.partition("?")[0].split("/") if word]
    words = words[2:] if words[:1] == ["api"] else words[3:] if words[:1] == ["apis"] else []
    if not words:
        return f"{VERBS.get(method, method)} {path}"
    namespace = ""
    if words[0] == "namespaces" and len(words) > 2:
        namespace, words = words[1], words[2:]
    kind, found, part = (*words, "", "")[:3]
    name = found or name
    if not name:
        return f"{'list' if method == 'GET' else VERBS.get(method, method)} {kind}{f' in namespace {namespace}' if namespace else ''}"
    thing = f"{_one_of(kind)} {f'{namespace}/' if namespace else ''}{name}"
    return f"{VERBS.get(method, method)} {f'{part} of ' if part else ''}{thing}"


def _one_of(kind: str) -> str:
    for many, one in ONE_OF.items():
        if kind.endswith(many):
            return kind.removesuffix(many) + one
    return kind.removesuffix("s")


def refusal(
    status: int, body: bytes, *, what: str, where: str, who: str, request_id: str = "", retry_after_s: float | None = None
) -> KubeRefused:
    """`body`: a Status, or whatever a proxy on the way has said. `who`: by which credentials we came."""
    told = read_status(body)
    reason = str(told.get("reason") or "Unknown")
    message = str(told.get("message") or body.decode("utf-8", "replace")).strip()[:LONGEST_MESSAGE] or "no reason given"
    details = told.get("details") if isinstance(told.get("details"), dict) else {}
    causes = tuple(
        Cause(str(one.get("reason", "")), str(one.get("message", "")), str(one.get("field", "")))
        for one in (details or {}).get("causes") or () if isinstance(one, dict)
    )  # fmt: skip
    metadata = told.get("metadata")
    return KubeRefused(
        f"{where[0].upper()}{where[1:]} refused to {what}: {message} ({status} {reason})", next_step(status, reason, message, who),
        status=status, reason=reason, what=what, message=message, causes=causes, request_id=request_id, retry_after_s=retry_after_s,
        resume=str(metadata.get("continue") or "") if isinstance(metadata, dict) else "",
    )  # fmt: skip


def read_status(body: bytes) -> dict[str, Any]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) and told.get("kind", "Status") == "Status" else {}


def next_step(status: int, reason: str, message: str, who: str) -> str:
    """The first that fits."""
    if status == 401:
        return f"Is {who} of this cluster, and not expired?"
    if "exceeded quota" in message:
        return "Stop something in that namespace, or let its admin raise the ResourceQuota (kubectl describe quota)."
    if "violates PodSecurity" in message:
        return "Ask for less, or label the namespace for a weaker pod-security.kubernetes.io/enforce."
    if "admission webhook" in message or "ValidatingAdmissionPolicy" in message:
        return "A rule of this cluster says so: ask whoever runs it, or change what it names."
    if "failed calling webhook" in message:
        return "A webhook of this cluster does not answer: see kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations."
    if status == 403:
        return f"Grant that verb on that resource to the account of {who}, by a Role and a RoleBinding."
    if status == 429 and "disruption budget" in message:
        return "A PodDisruptionBudget protects it: wait until others like it are healthy."
    return NEXT_STEPS.get(reason, NEXT_STEPS_BY_STATUS.get(status, ""))


NEXT_STEPS = {
    "AlreadyExists": "It is there already: take another name, or delete that one.",
    "Conflict": "Somebody changed it meanwhile: read it again, then change that.",
    "Expired": "It is too long ago: list again.",
    "Invalid": "Correct the fields that it names.",
}
NEXT_STEPS_BY_STATUS = {
    400: "Correct what it names.",
    404: "Is that name right, and is what defines that kind of object installed?",
    429: "The API server has too much to do: try again in a moment.",
    500: "See the log of the API server.",
    503: "The API server, or something behind it, is not ready: try again in a moment.",
    504: "It may have been done or not: look, then try again.",
}
