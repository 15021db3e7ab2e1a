"""Where the API server of Kubernetes is, and how we prove who we are: as a pod's service account, or by a kubeconfig.

Read anew for each question: tokens and certificates are changed under us while we run.
"""
import base64
import binascii
import os
import ssl
import stat
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpufairy.core.errors import BadInput
from gpufairy.node.proc_text import printable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where every pod finds its own
LARGEST = 1 << 20  # bytes of a kubeconfig, a token, a bundle of certificates
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
    tls = _trusting(_read(folder / "ca.crt", what), what)
    return KubeAccess(what, env["KUBERNETES_SERVICE_HOST"], int(port), tls, _token(_read(folder / "token", what), what))


def by_kubeconfig(path: Path) -> KubeAccess:
    what = f"kubeconfig {path}"
    try:
        told = yaml.safe_load(_read(path, what))
        context = _named(told, "contexts", told["current-context"], "context")
        cluster, user = _named(told, "clusters", context["cluster"], "cluster"), _named(told, "users", context["user"], "user")
        return _access(what, path.parent, cluster, user)
    except (yaml.YAMLError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{what} cannot be understood: {printable(str(error), 200)}", NEXT) from error


def _named(told: Any, group: str, name: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] | None = next((one[kind] for one in told[group] if one["name"] == name), None)
    if found is None:
        raise LookupError(f"no {kind} {str(name)[:60]!r} in it")
    return found


def _access(what: str, folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> KubeAccess:
    url = urllib.parse.urlsplit(str(cluster["server"]))
    if url.scheme != "https" or not url.hostname:
        raise BadInput(f"{what}: server is {str(cluster['server'])[:100]!r}, and must be https://HOST:PORT", NEXT)
    if cluster.get("insecure-skip-tls-verify") or cluster.get("proxy-url"):
        raise BadInput(
            f"{what} says insecure-skip-tls-verify or proxy-url: a token is not sent to whoever answers",
            "Give the cluster's certificate-authority, and an address that is reached directly.",
        )
    authority = _bytes(what, folder, cluster, "certificate-authority")
    tls = _trusting(authority, what) if authority is not None else ssl.create_default_context()
    certificate, key = (_bytes(what, folder, user, name) for name in ("client-certificate", "client-key"))
    if certificate is not None:
        _prove(tls, certificate + b"\n" + (key or b""), what)
    token = _token_of(what, folder, user, needed=certificate is None)
    return KubeAccess(what, url.hostname, url.port or 443, tls, token, url.path.rstrip("/"), str(cluster.get("tls-server-name") or ""))


def _token_of(what: str, folder: Path, user: dict[str, Any], *, needed: bool) -> str:
    if user.get("tokenFile"):  # counts more than a token beside it, as with kubectl
        return _token(_read(folder / str(user["tokenFile"]), what), what)
    if user.get("token"):
        return _token(str(user["token"]).encode(), what)
    if needed and (user.get("exec") or user.get("auth-provider")):
        raise BadInput(f"{what} has its token from a program (exec or auth-provider), which is for people and not run here", NEXT)
    if needed:
        raise BadInput(f"{what} has neither a token nor a client certificate", NEXT)
    return ""


def _bytes(what: str, folder: Path, told: dict[str, Any], name: str) -> bytes | None:
    """Written out, or in a file beside the kubeconfig or elsewhere."""
    if told.get(f"{name}-data"):
        try:
            return base64.b64decode(str(told[f"{name}-data"]), validate=True)
        except binascii.Error as error:
            raise BadInput(f"{what}: {name}-data is no base64 ({error})", NEXT) from error
    return _read(folder / str(told[name]), what) if told.get(name) else None


def _trusting(authority: bytes, what: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise BadInput(f"{what}: its certificate authority cannot be read ({error})", NEXT) from error


def _prove(tls: ssl.SSLContext, certificate_and_key: bytes, what: str) -> None:
    """OpenSSL takes files only: this one is in memory, and gone with the call."""
    descriptor = os.memfd_create("client-certificate")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate_and_key)
        tls.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: b"none")  # without it, it would ask at the terminal
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"{what}: its client certificate and key cannot be used ({error})", NEXT) from error
    finally:
        os.close(descriptor)


def _token(text: bytes, what: str) -> str:
    token = text.decode("ascii", "replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"{what}: its token is empty or no single word", NEXT)
    return token


def _read(path: Path, what: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us up
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadInput(f"{what}: {path} is no file", NEXT)
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise BadInput(f"{what}: {path} cannot be read: {error.strerror}", "Run as root, or let this account read it.") from error
    if len(text) > LARGEST:
        raise BadInput(f"{what}: {path} is larger than 1 MiB", NEXT)
    return text
