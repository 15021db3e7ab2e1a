"""The gateway's own keys: made once, kept for good, since every client remembers them."""
import os
import tempfile
from pathlib import Path

import asyncssh

from gpufairy.core.errors import BadInput

# RSA for clients without Ed25519, as under FIPS; 3072 bits hold until 2030 and beyond.
KINDS: tuple[tuple[str, str, dict[str, int]], ...] = (("host_ed25519", "ssh-ed25519", {}), ("host_rsa", "ssh-rsa", {"key_size": 3072}))


def host_keys(folder: Path) -> list[asyncssh.SSHKey]:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return [_kept(folder / name, kind, options) for name, kind, options in KINDS]
    except OSError as error:
        raise BadInput(f"the host keys in {folder} cannot be read or written: {error}", "Mend the folder's rights.") from error
    except asyncssh.KeyImportError as error:
        advice = "Put it back from a backup; removed, a new one is made, and every client will warn of it."
        raise BadInput(f"a host key in {folder} is damaged: {error}", advice) from error


def _kept(path: Path, kind: str, options: dict[str, int]) -> asyncssh.SSHKey:
    if not path.exists():
        _write_once(path, asyncssh.generate_private_key(kind, comment="gpufairy", **options).export_private_key())
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return asyncssh.read_private_key(path)


def _write_once(path: Path, content: bytes) -> None:
    """Whole or not at all; of two that start at once, the first one's is kept."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            return
