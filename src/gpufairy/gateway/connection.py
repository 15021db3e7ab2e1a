"""One SSH connection: asyncssh's own, tuned for speed, bounded before sign-in, and sure of which key has signed."""
import asyncio
import socket
from collections.abc import Callable
from typing import Any

import asyncssh
from asyncssh.connection import SSHServerConnection
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_IGNORE, MSG_USERAUTH_FAILURE, MSG_USERAUTH_REQUEST
from asyncssh.encryption import Encryption
from asyncssh.packet import Boolean, NameList, SSHPacket, String

from gpufairy.gateway.channels import SessionChannel, TcpChannel, UnixChannel
from gpufairy.gateway.fast_packets import FastSealer, sealer_for
from gpufairy.gateway.flows import Outflow
from gpufairy.gateway.login import Login, read_login
from gpufairy.gateway.settings import GatewaySettings

# asyncssh copies what is left of its input after each packet, so a large piece at once costs its square.
SLICE_BYTES = 32 * 2**10
SHORT_BYTES = 4 * 2**10  # a question rather than part of a file
MAX_PACKET_BYTES = 32 * 2**10  # larger ones made uploads three times slower
SHA1_SIGNATURE = String(b"ssh-rsa")


class Owner(asyncssh.SSHServer):
    """What a connection asks of whoever it belongs to."""

    def odd_name(self, sent: bytes) -> None: ...
    async def knows(self, key: bytes) -> bool:
        return False

    def refused(self, words: str) -> None: ...


class Connection(SSHServerConnection):
    """`version_line`: what the client has said so far; ours was sent by the doorstep."""

    _owner: Owner

    def __init__(self, options: asyncssh.SSHServerConnectionOptions, settings: GatewaySettings, version_line: bytes) -> None:
        super().__init__(asyncio.get_running_loop(), options)
        self._settings, self._said_first = settings, version_line
        self._socket: socket.socket | None = None
        self._outflows: set[Outflow] = set()
        self._clogged = False
        self._failures = 0
        self.login: Login | None = None  # as asked for; proven once `signed_by` is set
        self.signed_by: bytes | None = None
        self._sealer: FastSealer | None = None
        self._sealer_of: Encryption | None = None  # renewed with the keys
        self.heard_at = self._loop.time()
        self._on_settled: Callable[[], None] | None = None

    def when_settled(self, call: Callable[[], None]) -> None:
        """Called once: it has signed in, or is gone."""
        self._on_settled = call

    def _settle(self) -> None:
        call, self._on_settled = self._on_settled, None
        if call is not None:
            call()

    def send_away(self, words: str) -> None:
        """As disconnect(), but channels are not closed first: a client whose last one is closed may go without reading the words."""
        self._send_disconnect(asyncssh.DISC_BY_APPLICATION, words, "en")
        self._force_close(None)

    @property
    def channel_count(self) -> int:
        """Those that both sides have closed are only about to be forgotten; one that the client never closes counts on."""
        held = ("open", "eof_pending", "eof")
        return sum(channel._send_chan is not None or channel._recv_state in held for channel in self._channels.values())

    # The line.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport.get_extra_info("socket")
        self._keep_alive()
        super().connection_made(transport)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=self._settings.send_ahead_bytes)
            self.data_received(self._said_first)
        self._said_first = b""

    def _cleanup(self, exc: Exception | None) -> None:
        super()._cleanup(exc)
        self._settle()

    def _keep_alive(self) -> None:
        if self._socket is None or self._socket.family == socket.AF_UNIX:
            return
        settings = self._settings
        for option, value in (
            (socket.TCP_KEEPIDLE, settings.alive_after_s), (socket.TCP_KEEPINTVL, settings.alive_every_s),
            (socket.TCP_KEEPCNT, settings.alive_count),
            (socket.TCP_USER_TIMEOUT, 1000 * (settings.alive_after_s + settings.alive_every_s * settings.alive_count)),
        ):  # fmt: skip
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)

    def _send_version(self) -> None:
        self._server_version = b"SSH-2.0-" + self._version

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        self.heard_at = self._loop.time()
        if len(data) <= SHORT_BYTES and self._socket is not None and self._socket.fileno() >= 0:
            # Until it hears that we have its last packet, a client may hold back its next: 40 ms, several times in a login.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        if len(data) <= SLICE_BYTES:
            super().data_received(data, datatype)
            return
        for at in range(0, len(data), SLICE_BYTES):
            super().data_received(data[at : at + SLICE_BYTES], datatype)

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        # asyncssh puts an empty one before every packet, against a weakness of CBC ciphers, which we do not offer.
        if pkttype != MSG_IGNORE:
            super().send_packet(pkttype, *args, handler=handler)

    def send_data(self, channel: int, data: memoryview) -> None:
        """MSG_CHANNEL_DATA with few copies, when nothing stands in its way."""
        pieces = (channel.to_bytes(4, "big"), len(data).to_bytes(4, "big"), data)
        if not self._kex_complete or self._rekey_bytes_sent >= self._rekey_bytes:
            self.send_packet(MSG_CHANNEL_DATA, b"".join(pieces))
            return
        if self._sealer_of is not self._send_encryption:
            self._sealer, self._sealer_of = sealer_for(self._send_encryption), self._send_encryption
        if self._sealer is None:
            self.send_packet(MSG_CHANNEL_DATA, b"".join(pieces))
            return
        sealed = self._sealer.sealed(MSG_CHANNEL_DATA, pieces)
        self._send(sealed)
        self._send_seq = (self._send_seq + 1) & 0xFFFFFFFF
        self._rekey_bytes_sent += len(sealed)

    def log_received_packet(self, *_: Any) -> None:
        """Not even formatted: this is called for each packet."""

    def log_sent_packet(self, *_: Any) -> None:
        """As above."""

    # A client that reads slowly stops its commands, whatever window it has promised.

    def pause_writing(self) -> None:
        self._clogged = True
        for flow in self._outflows:
            flow.hold("connection")

    def resume_writing(self) -> None:
        self._clogged = False
        for flow in list(self._outflows):
            flow.release("connection")

    def add_outflow(self, flow: Outflow) -> None:
        self._outflows.add(flow)
        if self._clogged:
            flow.hold("connection")

    def remove_outflow(self, flow: Outflow) -> None:
        self._outflows.discard(flow)

    # Signing in.

    async def reload_config(self) -> None:
        """There is no configuration that would differ by user."""

    def _requested(self, kind: int, number: int, packet: SSHPacket) -> Any:
        """Names are read as they were sent: asyncssh would fold look-alikes into one, and end the connection of the oddest."""
        sent = SSHPacket(packet.get_remaining_payload()).get_string()
        login = read_login(sent)
        if self._auth_complete or login is not None:
            self.login = self.login if self._auth_complete else login
            return self._process_userauth_request(kind, number, packet)
        self._owner.odd_name(sent)
        self.send_userauth_failure(False)
        return None

    _packet_handlers = {**SSHServerConnection._packet_handlers, MSG_USERAUTH_REQUEST: _requested}  # noqa: RUF012

    def send_userauth_failure(self, partial_success: bool) -> None:
        self._failures += 1
        if self._failures > self._settings.most_auth_failures + 1:  # every client asks once with no method at all
            self.disconnect(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "Too many authentication failures")
            return
        self._auth = None
        self.send_packet(MSG_USERAUTH_FAILURE, NameList([b"publickey"]), Boolean(False))

    async def send_userauth_success(self) -> None:
        await super().send_userauth_success()
        self._settle()

    async def validate_public_key(self, username: str, key_data: bytes, msg: bytes, signature: bytes) -> bool:
        """A key that is only offered proves nothing: who it is, is decided by the one that has signed."""
        self.signed_by = None
        if signature.startswith(SHA1_SIGNATURE) or not await self._owner.knows(key_data):
            return False
        valid = await super().validate_public_key(username, key_data, msg, signature)
        if valid and msg:
            self.signed_by = key_data
        return valid

    # Channels.

    def create_server_channel(self, encoding: str | None = "", errors: str = "", window: int = 0, max_pktsize: int = 0) -> SessionChannel:
        return SessionChannel(
            self, self._loop, allow_pty=True, line_editor=False, line_echo=False, line_history=0, max_line_length=0,
            encoding=None, errors="strict", window=window, max_pktsize=MAX_PACKET_BYTES,
        )  # fmt: skip

    def tcp_channel(self, window: int) -> TcpChannel:
        return TcpChannel(self, self._loop, None, "strict", window, MAX_PACKET_BYTES)

    def unix_channel(self, window: int) -> UnixChannel:
        return UnixChannel(self, self._loop, None, "strict", window, MAX_PACKET_BYTES)

    async def create_agent_listener(self) -> bool:
        self._owner.refused("agent forwarding is off here: whoever is root on this machine could use your keys")
        return False

    async def attach_x11_listener(self, *_: Any) -> None:
        self._owner.refused("X11 forwarding is off here; programs with a window can be shown in the browser")
