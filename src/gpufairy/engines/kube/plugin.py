"""Credentials from a program that the kubeconfig names, as clouds have them (aws, gke-gcloud-auth-plugin, kubelogin).

Asked anew before they expire, and once when the server no longer takes them. The program has no terminal here, and a limited time.
"""
import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpufairy.core.errors import BadInput
from gpufairy.engines.kube.identity import Proof, Trust, one_word
from gpufairy.engines.kube.tls import prove

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
ANSWER_S = 60.0  # a cloud's own command line takes one to five, and more on its first call of the day
LARGEST = 1 << 20  # bytes of its answer
BEFORE_S = 30.0  # so long before its end a token is not used for a new request, which may take a while
LONGEST_WORDS = 500


@dataclass(frozen=True, slots=True)
class Plugin:
    what: str
    version: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    hint: str = ""  # how to install it
    cluster: Mapping[str, Any] | None = None  # told to the program if it wants to know


@dataclass(frozen=True, slots=True)
class Granted:
    proof: Proof
    until: float | None  # seconds since 1970; None: as long as the server takes it


class PluginIdentity:
    def __init__(self, plugin: Plugin, trust: Trust, headers: Mapping[str, str]) -> None:
        self._plugin, self._trust, self._headers = plugin, trust, headers
        self._asking = asyncio.Lock()  # fifty requests at once ask one time
        self._granted: Granted | None = None
        self._plain_tls = trust.tls(plugin.what)

    async def proof(self, refused: Proof | None = None) -> Proof:
        if (good := self._good(refused)) is not None:
            return good
        async with self._asking:
            if (good := self._good(refused)) is not None:
                return good
            self._granted = self._read(await answer_of(self._plugin))
            return self._granted.proof

    def _good(self, refused: Proof | None) -> Proof | None:
        granted = self._granted
        if granted is None or granted.proof is refused or (granted.until is not None and time.time() > granted.until - BEFORE_S):
            return None
        return granted.proof

    def _read(self, text: bytes) -> Granted:
        what = self._plugin.what
        try:
            told = json.loads(text)
            status = told["status"]
            if told["apiVersion"] != self._plugin.version:
                raise ValueError(f"its apiVersion is {str(told['apiVersion'])[:80]!r}, not {self._plugin.version}")
            until = datetime.fromisoformat(status["expirationTimestamp"]).timestamp() if status.get("expirationTimestamp") else None
            token, certificate, key = (str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"{what} gave no ExecCredential: {type(error).__name__} {str(error)[:200]}", self._plugin.hint) from error
        if not token and not certificate:
            raise BadInput(f"{what} gave neither a token nor a certificate.", self._plugin.hint)
        tls = self._plain_tls
        if certificate and self._trust.is_tls:
            tls = self._trust.tls(what)
            assert tls is not None
            prove(tls, certificate.encode(), key.encode(), what)
        proved = {"Authorization": f"Bearer {one_word(token.encode(), what, self._plugin.hint)}"} if token else {}
        return Granted(Proof(tls, {**self._headers, **proved}), until)


async def answer_of(plugin: Plugin) -> bytes:
    """What it prints. Raises BadInput."""
    spec = {"interactive": False, **({"cluster": plugin.cluster} if plugin.cluster is not None else {})}
    asked = json.dumps({"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec})
    try:
        process = await asyncio.create_subprocess_exec(
            *plugin.argv, env={**plugin.env, "KUBERNETES_EXEC_INFO": asked}, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise BadInput(f"{plugin.what} cannot be started: {error}", plugin.hint or f"Install {plugin.argv[0]}.") from error
    code, reading = None, [asyncio.create_task(_bounded(stream, plugin)) for stream in (process.stdout, process.stderr)]
    try:
        async with asyncio.timeout(ANSWER_S):
            said, complained = await asyncio.gather(*reading)
            code = await process.wait()
    except TimeoutError as error:
        raise BadInput(f"{plugin.what} did not end within {ANSWER_S:g} s.", f"Run it by hand: {' '.join(plugin.argv)}") from error
    finally:
        if code is None:
            await _end(process, reading)
    if code:
        words = complained.decode("utf-8", "replace").strip()[-LONGEST_WORDS:] or "it said nothing"
        raise BadInput(f"{plugin.what} ended with {code}: {words}", plugin.hint or f"Run it by hand: {' '.join(plugin.argv)}")
    return said


async def _bounded(stream: asyncio.StreamReader | None, plugin: Plugin) -> bytes:
    assert stream is not None
    text = b""
    while chunk := await stream.read(65536):
        text += chunk
        if len(text) > LARGEST:
            raise BadInput(f"{plugin.what} said more than {LARGEST} bytes.", plugin.hint)
    return text


async def _end(process: asyncio.subprocess.Process, reading: list[asyncio.Task[bytes]]) -> None:
    """With what it started: a child that holds its output open would keep our descriptors."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    for stream in (process.stdout, process.stderr):
        while stream is not None and await stream.read(65536):  # asyncio takes no process for ended before its pipes are empty
            pass
    await process.wait()
