"""Every number that the gateway goes by, with its reason."""
from dataclasses import dataclass, field
from pathlib import Path

from gpufairy.core.source import Trusted

KIB, MIB = 2**10, 2**20
LISTEN, PORT = "127.0.0.1", 8422


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    data: Path  # the server's data folder: host keys, the server's address and our token are read there
    listen: str = LISTEN
    port: int = PORT

    login_grace_s: float = 30.0  # from the first packet to being signed in: enough to type a passphrase
    # Those who have not begun to sign in cost a descriptor and a kilobyte, so many may stand there; beyond that the oldest goes.
    most_waiting: int = 8192
    most_waiting_per_source: int = 2048
    trusted: Trusted = field(default_factory=Trusted)  # these sources may have as many waiting as there is room for
    most_signing_in: int = 128  # key exchanges at once: more would only slow each other down, so the rest waits its turn
    most_signing_in_per_source: int = 32  # one address must not fill all of them
    # With others waiting, whoever has not signed in after so long takes no turn from them any more, and whoever says nothing for a while
    # sooner. They may go on as soon as they speak; what they cost is memory, so only so many stay.
    patience_s: float = 2.0
    silence_s: float = 0.5
    most_dawdling: int = 512
    most_auth_failures: int = 6  # as OpenSSH has it: an agent offers several keys
    most_per_user: int = 100  # connections: a cluster's worth of terminals, and not all of our descriptors
    most_channels: int = 32  # on one connection: terminals, commands and forwards together

    # What a channel may send ahead of what its command has read: 2 MiB fills a 1 Gbit line at 16 ms. One that reads nothing keeps
    # it in our memory, so beyond the first few channels of a user it is small.
    window_bytes: int = 2 * MIB
    small_window_bytes: int = 64 * KIB
    wide_channels_per_user: int = 16
    send_ahead_bytes: int = 256 * KIB  # kept for a client that reads slowly; its commands are stopped then

    # Dead peers go after 60 s of silence and three questions. The kernel asks, so that a thousand idle logins cost nothing.
    alive_after_s: int = 60
    alive_every_s: int = 60
    alive_count: int = 3

    away_s: float = 20.0  # a login waits this long for a server that restarts: it serves again in 5 s
    lonely_s: float = 600.0  # without a server and without a visitor: nobody needs us any more

    @property
    def folder(self) -> Path:
        return self.data / "ssh"

    @property
    def note(self) -> Path:
        """Which process listens, and where: written when it does."""
        return self.folder / "gateway.json"

    @property
    def token_file(self) -> Path:
        """The gateway's own token, written by the server."""
        return self.folder / "gateway.token"
