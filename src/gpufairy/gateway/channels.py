"""Channels as asyncssh makes them, with what a hostile or hasty client could cost us taken out."""
from typing import Any, Protocol, runtime_checkable

from asyncssh.channel import SSHChannel, SSHServerChannel, SSHTCPChannel, SSHUNIXChannel
from asyncssh.constants import MSG_CHANNEL_CLOSE
from asyncssh.packet import SSHPacket

from gpufairy.gateway.wishes import MOST_VARIABLES, may_pass


class _Prompt(SSHChannel[bytes]):
    """Ends when the client closes it, even with input left that its command does not read."""

    _conn: Any  # our own Connection, which makes these

    def log_received_packet(self, *_: Any) -> None:
        """Not even formatted: this is called for each packet."""

    def log_sent_packet(self, *_: Any) -> None:
        """As above."""

    def write(self, data: bytes, datatype: int | None = None) -> None:
        """As asyncssh's, without its copies, as long as the client's window is open and nothing waits."""
        left = memoryview(data)
        if datatype is None and self._send_state == "open" and not self._send_buf and self._conn is not None:
            while left and self._send_window and self._send_chan is not None:
                size = min(len(left), self._send_window, self._send_pktsize)
                self._send_window -= size
                self._conn.send_data(self._send_chan, left[:size])
                left = left[size:]
        if left or self._send_state != "open":
            super().write(bytes(left), datatype)

    def _close_by_client(self, kind: int, number: int, packet: SSHPacket) -> None:
        self._recv_buf.clear()
        self._recv_paused = False
        self._process_close(kind, number, packet)

    _packet_handlers = {**SSHChannel._packet_handlers, MSG_CHANNEL_CLOSE: _close_by_client}  # noqa: RUF012


@runtime_checkable
class Interruptible(Protocol):
    def output_unwanted(self) -> None: ...


class SessionChannel(_Prompt, SSHServerChannel[bytes]):
    def _process_env_request(self, packet: SSHPacket) -> bool:
        name, value = packet.get_string(), packet.get_string()
        packet.check_end()
        if len(self._env) >= MOST_VARIABLES or not may_pass(name, value):
            return False
        self._env[name] = value
        return True

    def _process_eow_at_openssh_dot_com_request(self, packet: SSHPacket) -> bool:
        """Nobody reads its output any more: OpenSSH says so when one of several commands on a connection is interrupted."""
        packet.check_end()
        if isinstance(self._session, Interruptible):
            self._session.output_unwanted()
        return True


class TcpChannel(_Prompt, SSHTCPChannel[bytes]):
    pass


class UnixChannel(_Prompt, SSHUNIXChannel[bytes]):
    pass
