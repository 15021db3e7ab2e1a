"""The agent's own key: made at its first start, kept where only its account can read it, never sent anywhere."""
import base64
import contextlib
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpufairy.core.agent import fingerprint, signed_bytes
from gpufairy.core.errors import BadInput

KEY_FILE = "agent.key"
KEY_BYTES = 32


class Identity:
    def __init__(self, secret: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self._public = self._key.public_key().public_bytes_raw()

    @property
    def public(self) -> str:
        return base64.b64encode(self._public).decode()

    @property
    def fingerprint(self) -> str:
        return fingerprint(self._public)

    def signature(self, name: str, epoch: str, sequence: int, body: bytes) -> str:
        return base64.b64encode(self._key.sign(signed_bytes(name, epoch, sequence, body))).decode()


def own_identity(folder: Path) -> Identity:
    """The same at every start. A file that is not ours to trust is said, not replaced: the host would be a stranger afterwards."""
    file = folder / KEY_FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            _write_once(file, os.urandom(KEY_BYTES))
        secret = file.read_bytes()
        mode = file.stat().st_mode & 0o077
    except OSError as error:
        raise BadInput(f"the agent's key {file} cannot be used: {error.strerror}", "Give a folder of its own: --data DIR.") from None
    if len(secret) != KEY_BYTES or mode:
        found = "others may read it" if mode else f"it has {len(secret)} bytes, not {KEY_BYTES}"
        raise BadInput(f"the agent's key {file} cannot be used: {found}", "Remove it; a new one must be accepted by an admin again.")
    return Identity(secret)


def _write_once(file: Path, secret: bytes) -> None:
    """Whole or not at all, even if the power fails in between; of two that start at once, both use the key of the first."""
    part = file.with_suffix(f".{os.getpid()}")
    part.unlink(missing_ok=True)  # of a crash, under the same number
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secret)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    with contextlib.suppress(FileExistsError):
        os.link(part, file)
    part.unlink()
