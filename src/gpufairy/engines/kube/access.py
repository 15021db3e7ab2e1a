"""Where the API server is, and how we prove who we are: by kubeconfig as kubectl finds it, or as a pod's service account."""
import base64
import ipaddress
import logging
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.identity import Credentials, Identity, KnownIdentity, Pem, Trust
from gpufairy.engines.kube.kubeconfig import NEXT, Chosen, Entry, choose, paths_in, read_bounded
from gpufairy.engines.kube.plugin import VERSIONS, Plugin, PluginIdentity

log = logging.getLogger(__name__)
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # where every pod finds its own
LOCAL = ("localhost", "127.0.0.1", "::1")
EXTENSION = "client.authentication.k8s.io/exec"
TOLD = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")


@dataclass(frozen=True, slots=True)
class Access:
    words: str  # "kubeconfig /home/kim/.kube/config, context lab"
    server: str  # https://host:port, and a path if the cluster is behind one; no slash at its end
    namespace: str
    identity: Identity = field(repr=False)
    proxy: str | None = field(default=None, repr=False)  # may hold a password
    server_name: str | None = None  # that the server's certificate must have, if not the host


def load_access(kubeconfig: Path | None, context: str | None, env: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """`kubeconfig`: that one alone. Else as kubectl: $KUBECONFIG, ~/.kube/config, the service account of this pod. Raises BadInput."""
    if kubeconfig is not None:
        return _by_kubeconfig(choose([kubeconfig], context), env)
    paths = paths_in(env)
    if paths:
        return _by_kubeconfig(choose(paths, context), env)
    if env.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return _in_cluster(env, service_account)
    named = env.get("KUBECONFIG")
    looked = f"none of {named}" if named else f"no {Path(env.get('HOME', '~'), '.kube', 'config')}"
    raise BadInput(
        f"No way to a Kubernetes is known: there is {looked}, and this is no pod with a service account.",
        "Name a kubeconfig, set KUBECONFIG, or run in the cluster.",
    )


def _in_cluster(env: Mapping[str, str], folder: Path) -> Access:
    words, host, port = f"service account in {folder}", env["KUBERNETES_SERVICE_HOST"], env.get("KUBERNETES_SERVICE_PORT", "443")
    server, _ = _server(f"https://{f'[{host}]' if ':' in host else host}:{port}", words)
    identity = KnownIdentity(words, Trust(True, Pem(path=folder / "ca.crt")), Credentials(token_path=folder / "token"))
    try:
        namespace = (folder / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    return Access(words, server, namespace or "default", identity)


def _by_kubeconfig(chosen: Chosen, env: Mapping[str, str]) -> Access:
    cluster, user = chosen.cluster, chosen.user
    words = f"kubeconfig {chosen.context.path}, context {chosen.context_name}"
    server, host = _server(cluster.text("server"), words)
    is_tls, anybody = server.startswith("https:"), cluster.told.get("insecure-skip-tls-verify") is True
    if anybody:
        words += " (whose server is not verified)"
        log.warning("%s says insecure-skip-tls-verify: whoever answers at %s is believed and given our token.", words, server)
    authority = Pem(cluster.decoded("certificate-authority-data"), cluster.file("certificate-authority"))
    identity = _identity(words, chosen, Trust(is_tls, authority, anybody), env)
    if not is_tls and host not in LOCAL and _has_secret(user):
        raise BadInput(f"{words}: {server} is without TLS, and our token would be read on the way.", "Give its https:// address.")
    proxy = _proxy(cluster.text("proxy-url") or _proxy_in(env, server, host), words)
    return Access(words, server, chosen.context.text("namespace") or "default", identity, proxy, cluster.text("tls-server-name") or None)


def _server(url: str, words: str) -> tuple[str, str]:
    """Tidy, and its host."""
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not url or not host or parts.scheme not in ("http", "https") or parts.username or port == 0:
        raise BadInput(f"{words}: its server is {url[:100]!r}, and must be https://HOST:PORT.", NEXT)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", host


def _has_secret(user: Entry) -> bool:
    return any(user.told.get(name) for name in ("token", "tokenFile", "password", "exec"))


def _identity(words: str, chosen: Chosen, trust: Trust, env: Mapping[str, str]) -> Identity:
    user = chosen.user
    if user.told.get("auth-provider"):
        raise BadInput(
            f"{words}: its user has an auth-provider, which Kubernetes removed in 1.26.",
            "Make the kubeconfig anew with today's plugin (gcloud container clusters get-credentials, kubelogin).",
        )
    headers = _impersonation(user)
    if user.told.get("exec"):
        return PluginIdentity(_plugin(words, chosen, env), trust, headers)
    if user.text("username"):
        pair = f"{user.text('username')}:{user.text('password')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    certificate, key = (Pem(user.decoded(f"{name}-data"), user.file(name)) for name in ("client-certificate", "client-key"))
    return KnownIdentity(words, trust, Credentials(user.text("token"), user.file("tokenFile"), certificate, key, headers))


def _impersonation(user: Entry) -> dict[str, str]:
    told = {"Impersonate-User": user.text("as"), "Impersonate-Uid": user.text("as-uid")}
    headers = {name: value for name, value in told.items() if value}
    if not all(value.isprintable() for value in headers.values()):
        raise BadInput(f"kubeconfig {user.path}: the name in as or as-uid has signs that no header can hold.", NEXT)
    if user.told.get("as-groups") or user.told.get("as-user-extra"):
        raise BadInput(f"kubeconfig {user.path}: as-groups and as-user-extra are not spoken here.", "Use an account that has these rights.")
    return headers


def _plugin(words: str, chosen: Chosen, env: Mapping[str, str]) -> Plugin:
    told: Any = chosen.user.told["exec"]
    if not isinstance(told, dict) or not told.get("command"):
        raise BadInput(f"{words}: its exec names no command.", NEXT)
    command, version = str(told["command"]), str(told.get("apiVersion"))
    what, hint = f"{command}, the program of {words},", str(told.get("installHint") or "")
    if version not in VERSIONS:
        raise BadInput(f"{what} speaks {version[:80]}; known are {' and '.join(VERSIONS)}.", hint or "Bring the program up to date.")
    if told.get("interactiveMode") == "Always":
        raise BadInput(f"{what} wants a terminal (interactiveMode Always), and there is none here.", "Use a service account's token.")
    try:
        args = tuple(str(one) for one in told.get("args") or ())
        added = {str(one["name"]): str(one["value"]) for one in told.get("env") or ()}
    except (TypeError, LookupError, AttributeError) as error:
        raise BadInput(f"{what} has args or env that are no lists of words and of names with values.", NEXT) from error
    if os.sep in command:
        command = str(chosen.user.path.parent / command)  # as kubectl: from the kubeconfig's folder, not from ours
    cluster = _cluster_told(chosen.cluster) if told.get("provideClusterInfo") else None
    return Plugin(what, version, (command, *args), {**env, **added}, hint, cluster)


def _cluster_told(cluster: Entry) -> dict[str, Any]:
    """As the program is told of it, with the part of the kubeconfig that is meant for it."""
    told = {name: cluster.told[name] for name in TOLD if cluster.told.get(name)}
    if (path := cluster.file("certificate-authority")) is not None and "certificate-authority-data" not in told:
        told["certificate-authority-data"] = base64.b64encode(read_bounded(path, "certificate-authority")).decode()
    meant = [one.get("extension") for one in cluster.told.get("extensions") or () if isinstance(one, dict) and one.get("name") == EXTENSION]
    return {**told, "config": meant[0]} if meant else told


def _proxy(url: str, words: str) -> str | None:
    if not url:
        return None
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        shown = url.rpartition("@")[2][:100]
        raise BadInput(f"{words}: its proxy {shown!r} is none for HTTP.", "Give an http:// or https:// proxy: SOCKS is not spoken.")
    return url


def _proxy_in(env: Mapping[str, str], server: str, host: str) -> str:
    """As Go's programs have it, kubectl among them: loopback is never asked through one."""
    scheme = server.partition(":")[0]
    url = env.get(f"{scheme.upper()}_PROXY") or env.get(f"{scheme}_proxy") or ""
    if not url or host in LOCAL or _is_direct(env.get("NO_PROXY") or env.get("no_proxy") or "", host):
        return ""
    return url if "://" in url else f"http://{url}"


def _is_direct(direct: str, host: str) -> bool:
    for one in (word.strip().lower() for word in direct.split(",")):
        name = one.rpartition(":")[0] if one.rpartition(":")[2].isdecimal() and one.count(":") == 1 else one
        if name == "*" or (name and (host == name.lstrip(".") or host.endswith(f".{name.lstrip('.')}"))):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False):
                return True
        except ValueError:
            continue
    return False
