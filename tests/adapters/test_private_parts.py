"""Parts of other packages that are nobody's promise: all that we use stand here and in decision 31, and are where they were."""
import ast
import importlib.metadata
import inspect
import re
import smtplib
import tarfile
import textwrap
import tomllib
from ctypes import CDLL
from functools import cache
from pathlib import Path

import aiodocker.containers
import pytest
import uvicorn
from asyncssh import kex
from asyncssh.channel import SSHChannel, SSHServerChannel, SSHTCPChannel, SSHUNIXChannel
from asyncssh.connection import SSHServerConnection
from asyncssh.crypto.cipher import GCMCipher
from asyncssh.encryption import GCMEncryption
from asyncssh.misc import map_handler_name
from packaging.requirements import Requirement
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

pytestmark = pytest.mark.slow  # it reads all of the source

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gpufairy"
PAGE = next((ROOT / "docs" / "decisions").glob("0031-*.md"))
BOUNDED = {"aiodocker", "asyncssh", "uvicorn"}
# By class of ours: whose child it is, the values and the methods of that one that it uses or replaces, with their parameters.
CHILDREN = {
    ("gateway/connection.py", "Connection"): (
        SSHServerConnection,
        {
            "_auth", "_auth_complete", "_channels", "_kex_complete", "_loop", "_owner", "_packet_handlers", "_rekey_bytes",
            "_rekey_bytes_sent", "_send_encryption", "_send_seq", "_server_version", "_transport", "_version",
        },
        {
            "_cleanup": "exc", "_force_close": "exc", "_process_userauth_request": "_pkttype _pktid packet", "_send": "data",
            "_send_disconnect": "code reason lang", "_send_version": "",
            "attach_x11_listener": "chan auth_proto auth_data screen", "connection_made": "transport",
            "create_agent_listener": "", "create_server_channel": "encoding errors window max_pktsize",
            "data_received": "data datatype", "disconnect": "code reason lang",
            "log_received_packet": "pkttype pktid packet note", "log_sent_packet": "pkttype pktid packet note",
            "pause_writing": "", "reload_config": "", "resume_writing": "", "send_packet": "pkttype args handler",
            "send_userauth_failure": "partial_success", "send_userauth_success": "",
            "validate_public_key": "username key_data msg signature",
        },
    ),
    ("gateway/channels.py", "_Prompt"): (
        SSHServerChannel,
        {
            "_conn", "_packet_handlers", "_recv_buf", "_recv_paused", "_send_buf", "_send_chan", "_send_pktsize", "_send_state",
            "_send_window",
        },
        {
            "_process_close": "_pkttype _pktid packet", "log_received_packet": "pkttype pktid packet note",
            "log_sent_packet": "pkttype pktid packet note", "write": "data datatype",
        },
    ),
    ("gateway/channels.py", "SessionChannel"): (SSHServerChannel, {"_env", "_session"}, {"_process_env_request": "packet"}),
    ("main/http.py", "GuardedHttp"): (
        HttpToolsProtocol,
        {"cycle", "flow", "headers", "loop", "parser", "pipeline", "transport", "url"},
        {
            "_should_upgrade": "", "_unset_keepalive_if_required": "", "connection_lost": "exc", "connection_made": "transport",
            "data_received": "data", "handle_websocket_upgrade": "", "on_body": "body", "on_headers_complete": "",
            "on_message_begin": "", "on_message_complete": "", "on_response_complete": "", "timeout_keep_alive_handler": "",
        },
    ),
    ("main/http.py", "QuietWebSocket"): (
        WebSocketsSansIOProtocol,
        {"close_sent", "handshake_complete", "initial_response", "transport"},
        {"connection_lost": "exc", "send": "message"},
    ),
    ("store/backup_archive.py", "BoundedInfo"): (tarfile.TarInfo, {"size", "type"}, {"_proc_member": "tarfile"}),
    ("main/serve.py", "Web"): (uvicorn.Server, set(), {"capture_signals": "", "startup": "sockets"}),
}  # fmt: skip
# Looked at from outside: file, as it is written there, whose it is.
LOOKED_AT = {
    ("gateway/channels.py", "SSHChannel._packet_handlers"): SSHServerChannel,
    ("gateway/connection.py", "SSHServerConnection._packet_handlers"): SSHServerConnection,
    ("gateway/connection.py", "channel._recv_state"): SSHServerChannel,
    ("gateway/connection.py", "channel._send_chan"): SSHServerChannel,
    ("gateway/fast_packets.py", "cipher._key"): GCMCipher,
    ("gateway/fast_packets.py", "encryption._cipher"): GCMEncryption,
    ("gateway/fast_packets.py", "self._cipher._iv"): GCMCipher,
    ("gateway/fast_packets.py", "self._cipher._update_iv"): GCMCipher,
    ("engines/docker_list.py", "one._container"): aiodocker.containers.DockerContainer,
    ("couriers/mail.py", "self.smtp._host"): smtplib.SMTP,
    ("devices/probe_memory.py", "cuda.library._handle"): CDLL,
}
PROMISED = {"_exit", "_replace"}  # os._exit and that of named tuples are documented
OUR_OWN = {("core/explain.py", "view._helped")}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def names_in(kind: type) -> frozenset[str]:
    """What it and those above it define, or set on themselves."""
    found: set[str] = set()
    for one in (one for one in kind.__mro__ if one.__module__ not in ("builtins", "typing", "abc")):
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(one)))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return frozenset(found)


def used_by(module: str, name: str) -> set[str]:
    """On itself: what a class of ours calls, reads, sets or replaces."""
    [ours] = [node for node in tree_of(SOURCE / module).body if isinstance(node, ast.ClassDef) and node.name == name]
    found = {node.name for node in ast.walk(ours) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    found |= {node.attr for node in ast.walk(ours) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()")}
    return found | {target.id for node in ours.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)}


def parameters_of(function: object) -> str:
    return " ".join(name for name in inspect.signature(function).parameters if name != "self")


@pytest.mark.parametrize("ours", CHILDREN, ids="::".join)
def test_what_our_classes_use_of_their_parents_is_there_and_all_of_it_is_listed(ours):
    parent, values, methods = CHILDREN[ours]
    assert used_by(*ours) & names_in(parent) - {"__init__"} == values | set(methods)
    assert {name: parameters_of(getattr(parent, name)) for name in methods} == methods


def test_no_private_name_of_others_is_used_that_is_not_listed():
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-z]\w*", node.attr) and node.attr not in PROMISED:
                of = ast.unparse(node.value)
                if of not in ("self", "cls", "super()") and not re.fullmatch(r"(type\(self\)|other|made)", of):
                    found.add((path.relative_to(SOURCE).as_posix(), f"{of}.{node.attr}"))
    assert found - OUR_OWN == set(LOOKED_AT)


@pytest.mark.parametrize("place", LOOKED_AT, ids=lambda place: place[1])
def test_what_we_look_at_in_others_is_there(place):
    assert place[1].rpartition(".")[2] in names_in(LOOKED_AT[place])


def test_channels_of_each_kind_take_what_we_make_them_with():
    made_with = "conn loop allow_pty line_editor line_echo line_history max_line_length encoding errors window max_pktsize"
    assert parameters_of(SSHServerChannel.__init__) == made_with
    for kind in (SSHTCPChannel, SSHUNIXChannel):
        assert parameters_of(kind.__init__) == "conn loop encoding errors window max_pktsize"
    assert parameters_of(SSHServerConnection.__init__) == "loop options acceptor error_handler wait"


def test_requests_on_a_channel_are_still_found_by_their_name():
    """How asyncssh comes to call _process_eow_at_openssh_dot_com_request, which it does not know itself."""
    assert map_handler_name("eow@openssh.com") == "eow_at_openssh_dot_com"
    assert "'_process_' + map_handler_name(request) + '_request'" in inspect.getsource(SSHChannel)


def test_the_parts_of_parts_that_we_read_are_there():
    assert {"response_complete", "response_started"} <= names_in(RequestResponseCycle)
    assert "read_paused" in names_in(FlowControl)
    assert parameters_of(kex.get_kex_algs) == ""


def requirements() -> dict[str, Requirement]:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {one.name: one for one in map(Requirement, told)}


@pytest.mark.parametrize("package", sorted(BOUNDED))
def test_a_package_with_such_parts_is_bounded_above_and_what_is_installed_lies_within(package):
    bounds = requirements()[package].specifier
    assert any(one.operator == "<" for one in bounds), f"{package} may move its parts in any version: give it an end"
    assert bounds.contains(importlib.metadata.version(package))


def test_every_one_of_them_is_in_the_decision_page():
    text = PAGE.read_text()
    private = {name for _, values, methods in CHILDREN.values() for name in {*values, *methods} if name.startswith("_")}
    private |= {words.rpartition(".")[2] for _, words in LOOKED_AT}
    assert {name for name in private if f"`{name}`" not in text} == set()
