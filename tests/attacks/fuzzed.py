"""What reads the words of strangers: each parser by the name of its corpus (corpus/NAME/*), from which it is fuzzed.

Whatever once broke one is put into its corpus, so that it is tried each time.
"""
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpufairy.cli.session_file import read_sessions
from gpufairy.control.passes import read_pass
from gpufairy.core.amounts import parse_cpus, parse_duration, parse_size
from gpufairy.core.apps import app_named
from gpufairy.core.backup_manifest import manifest_from_text
from gpufairy.core.cgroup import containers_of, user_slice
from gpufairy.core.disk import Place
from gpufairy.core.errors import FairyError
from gpufairy.core.image import image_name
from gpufairy.core.image_reference import full_name
from gpufairy.core.names import label, node_name, session_name, user_name
from gpufairy.core.naming_rule import parse_rule
from gpufairy.core.roster_file import read_roster
from gpufairy.core.share import parse_share
from gpufairy.core.ssh_key import parse_key
from gpufairy.devices.sample_line import from_line
from gpufairy.engines.docker_spec import labelled_id, labelled_session
from gpufairy.engines.kube.watch import read_event
from gpufairy.engines.kube.words import read_status
from gpufairy.engines.kube_gpus import hami_count
from gpufairy.engines.layer_file import Bounds, LayerFile
from gpufairy.engines.pod_commit import listed, table
from gpufairy.engines.registry.blobs import plain
from gpufairy.engines.registry.http import said
from gpufairy.engines.registry.proof import token_of
from gpufairy.gateway.login import read_login
from gpufairy.node.disk_walk import look_of
from gpufairy.node.exporter import parse_head
from gpufairy.node.pod_resources import read_holders
from gpufairy.node.processes import parse_stat
from gpufairy.store.backup_archive import unpack
from gpufairy.wire.disk_report import read_disk_report
from gpufairy.wire.read import read
from gpufairy.wire.report import HelloBody, read_report
from gpufairy.wire.submit import SubmitBody, understood

CORPUS = Path(__file__).parent / "corpus"
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
PLACE = Place("homes", "/home", of_homes=True)


@dataclass(frozen=True, slots=True)
class Parser:
    """`reads`: every reader of such words. Each answers, or raises what it promises."""

    reads: tuple[Callable[[bytes], object], ...]
    promised: tuple[type[Exception], ...] = (FairyError,)

    def take(self, data: bytes) -> None:
        for reads in self.reads:
            try:
                reads(data)
            except self.promised:
                continue


def texts(*readers: Callable[[str], object]) -> Parser:
    return Parser(tuple(lambda data, reads=reads: reads(data.decode("utf-8", "replace")) for reads in readers))


def layer(data: bytes) -> None:
    made = LayerFile(io.BytesIO(), Bounds(2**20, ("/home",)))
    made.feed(data)
    made.finish()


def labels(text: str) -> None:
    labelled_session({"gpufairy.launch": text}, {})
    labelled_id({"gpufairy.session": text, "gpufairy.attempt": text})
    labelled_id({"gpufairy.session": "x", "gpufairy.attempt": "".join(letter for letter in text if letter.isdecimal())})


def submitted(data: bytes) -> None:
    """As the route does: JSON that cannot be read never comes so far."""
    try:
        sent = json.loads(data)
    except (ValueError, RecursionError):
        return
    understood(read(SubmitBody, sent, "session"), has_gpus=True)


def hello(data: bytes) -> None:
    body = read(HelloBody, {"name": data[:50].decode("latin-1"), "key": data[50:].decode("latin-1")}, "agent")
    body.to_name()
    body.to_key()


def archive(folder: Path) -> Callable[[bytes], object]:
    def take_out(data: bytes) -> None:
        (folder / "archive").write_bytes(data)
        target = folder / f"out{len(list(folder.iterdir()))}"
        target.mkdir()
        unpack(folder / "archive", target)

    return take_out


PARSERS = {
    "session_file": Parser((lambda data: read_sessions(data, "f.yaml", toml=False), lambda data: read_sessions(data, "f.toml", toml=True))),
    "submit": Parser((submitted,)),
    "roster": Parser((read_roster,)),
    "names": texts(
        user_name, session_name, node_name, lambda text: label(text, "label"), parse_rule, app_named, lambda text: read_pass(b"secret", text)
    ),
    "amounts": texts(parse_size, parse_duration, parse_cpus, parse_share),
    "login": Parser((read_login,)),
    "key": texts(lambda text: parse_key(text, "ann", NOW)),
    "image": texts(image_name, full_name),
    "cgroup": texts(containers_of, user_slice),
    "stat": Parser((parse_stat,)),
    "report": Parser((lambda data: read_report(data, "gpu01", NOW), lambda data: read_disk_report(data, "gpu01", NOW, timedelta()), hello)),
    "disk_lines": Parser((lambda data: look_of(PLACE, NOW, data.split(b"\n"), took_s=1.0, full=True),)),
    "sample": Parser((from_line,)),
    "metrics_request": Parser((parse_head,)),
    "pods": Parser((read_holders,), (ValueError,)),
    "kube": Parser((lambda data: read_event(data, "/api/v1/pods"), read_status)),
    "registry": Parser((lambda data: token_of(data, "host"), lambda data: plain(data, "manifest"), said, table, listed)),
    "labels": texts(labels, hami_count),
    "layer": Parser((layer,)),
    "manifest": texts(manifest_from_text),
}  # fmt: skip


def seeds_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
