"""Where the API server of Kubernetes is, and how we prove who we are: as a pod's service account, or by a kubeconfig.

Read anew for each question: tokens and certificates are changed under us while we run.
"""
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.identity import one_word
from gpufairy.engines.kube.kubeconfig import Entry, read_bounded
from gpufairy.engines.kube.tls import prove, trusting
from gpufairy.node.proc_text import printable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where every pod finds its own
NEXT = "Name a kubeconfig with a token, a tokenFile or a client certificate, such as the kubelet's own /etc/kubernetes/kubelet.conf."


@dataclass(frozen=True, slots=True)
class KubeAccess:
    what: str  # where it was read, for words
    host: str
    port: int
    tls: ssl.SSLContext = field(repr=False)
    token: str = field(default="", repr=False)  # empty: the certificate in `tls` says who we are
    path: str = ""  # before /api, where several clusters are behind one name
    server_name: str = ""  # that the server's certificate must have, if not the host


def is_in_cluster(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster(env: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> KubeAccess:
    what, port = f"service account in {folder}", env.get("KUBERNETES_SERVICE_PORT", "443")
    if not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise BadInput(f"KUBERNETES_SERVICE_PORT is {port[:20]!r}, and no port.")
    tls, token = trusting(read_bounded(folder / "ca.crt", what), what), one_word(read_bounded(folder / "token", what), what)
    return KubeAccess(what, env["KUBERNETES_SERVICE_HOST"], int(port), tls, token)


def by_kubeconfig(path: Path) -> KubeAccess:
    what = f"kubeconfig {path}"
    try:
        told = yaml.safe_load(read_bounded(path, what))
        context = _named(told, "contexts", told["current-context"], "context")
        cluster, user = _named(told, "clusters", context["cluster"], "cluster"), _named(told, "users", context["user"], "user")
        return _access(what, Entry(cluster, path), Entry(user, path))
    except (yaml.YAMLError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{what} cannot be understood: {printable(str(error), 200)}", NEXT) from error


def _named(told: Any, group: str, name: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((one[kind] for one in told[group] if one["name"] == name), None)
    if found is None:
        raise LookupError(f"no {kind} {str(name)[:60]!r} in it")
    return found


def _access(what: str, cluster: Entry, user: Entry) -> KubeAccess:
    url = urllib.parse.urlsplit(cluster.text("server"))
    if url.scheme != "https" or not url.hostname:
        raise BadInput(f"{what}: server is {cluster.text('server')[:100]!r}, and must be https://HOST:PORT", NEXT)
    if cluster.told.get("insecure-skip-tls-verify") or cluster.told.get("proxy-url"):
        raise BadInput(
            f"{what} says insecure-skip-tls-verify or proxy-url: a token is not sent to whoever answers",
            "Give the cluster's certificate-authority, and an address that is reached directly.",
        )
    tls = trusting(_bytes(what, cluster, "certificate-authority"), what)
    certificate, key = (_bytes(what, user, name) for name in ("client-certificate", "client-key"))
    if certificate is not None:
        prove(tls, certificate, key or b"", what)
    token = _token_of(what, user, needed=certificate is None)
    return KubeAccess(what, url.hostname, url.port or 443, tls, token, url.path.rstrip("/"), cluster.text("tls-server-name"))


def _token_of(what: str, user: Entry, *, needed: bool) -> str:
    if (path := user.file("tokenFile")) is not None:  # counts more than a token beside it, as with kubectl
        return one_word(read_bounded(path, what), what)
    if user.text("token"):
        return one_word(user.text("token").encode(), what)
    if needed and (user.told.get("exec") or user.told.get("auth-provider")):
        raise BadInput(f"{what} has its token from a program (exec or auth-provider), which is for people and not run here", NEXT)
    if needed:
        raise BadInput(f"{what} has neither a token nor a client certificate", NEXT)
    return ""


def _bytes(what: str, entry: Entry, name: str) -> bytes | None:
    """Written out, or in a file beside the kubeconfig or elsewhere."""
    written, path = entry.decoded(f"{name}-data"), entry.file(name)
    return written if written is not None or path is None else read_bounded(path, what)
