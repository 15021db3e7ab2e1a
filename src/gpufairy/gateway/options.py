"""How we speak SSH: which ciphers, which ways to sign in. One set for each kind of client, made once."""
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncssh

VERSION = "fairy"  # all that strangers learn of us
# The client's order of preference wins, and OpenSSH before 9.9 puts CTR first, which costs us three times the CPU of GCM.
# So those who surely know GCM are offered nothing else. ChaCha20 is left out: without a native path it is slower still.
GCM = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
CTR = ("aes256-ctr", "aes128-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
# The last two are for clients that know no curve but NIST's, as under FIPS: how those were chosen has never been told.
KEX = (
    "mlkem768x25519-sha256", "curve25519-sha256", "curve25519-sha256@libssh.org", "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)  # fmt: skip
SIGNATURES = (
    "ssh-ed25519", "sk-ssh-ed25519@openssh.com", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip
SHA1_HOST_KEY = b"ssh-rsa"  # a signature by SHA-1, which others can forge; the same key signs by SHA-2, too
REKEY_BYTES = 64 * 2**30  # as OpenSSH with AES-GCM

_KNOWS_GCM = re.compile(rb"SSH-2\.0-OpenSSH_(?:[7-9]|[1-9][0-9])[._]")


@dataclass(frozen=True, slots=True)
class Offers:
    """What a client is offered, by the line that it begins with."""

    fast: asyncssh.SSHServerConnectionOptions
    common: asyncssh.SSHServerConnectionOptions

    def to(self, version_line: bytes) -> asyncssh.SSHServerConnectionOptions:
        return self.fast if _KNOWS_GCM.match(version_line) else self.common


def make_offers(keys: Sequence[asyncssh.SSHKey], visitor: Callable[[], asyncssh.SSHServer]) -> Offers:
    return Offers(_options(keys, visitor, GCM), _options(keys, visitor, GCM + CTR))


def _options(
    keys: Sequence[asyncssh.SSHKey], visitor: Callable[[], asyncssh.SSHServer], ciphers: Sequence[str]
) -> asyncssh.SSHServerConnectionOptions:
    known = {name.decode() for name in asyncssh.kex.get_kex_algs()}
    options = asyncssh.SSHServerConnectionOptions(
        server_factory=visitor, server_host_keys=list(keys), server_version=VERSION, config=None,
        kex_algs=[name for name in KEX if name in known],  # the first one only where the crypto library has it
        encryption_algs=list(ciphers), mac_algs=list(MACS), compression_algs=["none"], signature_algs=list(SIGNATURES),
        public_key_auth=True, password_auth=False, kbdint_auth=False, host_based_auth=False, gss_host=None, gss_kex=False, gss_auth=False,
        agent_forwarding=False, x11_forwarding=False, line_editor=False, encoding=None, rekey_bytes=REKEY_BYTES,
        login_timeout=0, keepalive_interval=0, tcp_keepalive=True,  # kept by the doorstep, and by the kernel
    )  # fmt: skip
    options.server_host_keys.pop(SHA1_HOST_KEY, None)  # asyncssh offers it with every RSA key
    return options
