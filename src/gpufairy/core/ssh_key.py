"""Public SSH keys as people paste them: which are taken, and their fingerprint."""
import base64
import binascii
import hashlib
from datetime import datetime

from gpufairy.core.amounts import shown
from gpufairy.core.errors import BadInput
from gpufairy.core.people import Key

TAKEN = (
    "ssh-ed25519", "sk-ssh-ed25519@openssh.com", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com", "ssh-rsa",
)  # fmt: skip
HOW_TO_MAKE_ONE = "Make one with `ssh-keygen -t ed25519`, and give the file that ends in .pub."


def parse_key(text: str, user: str, now: datetime) -> Key:
    words = text.strip().split(None, 2)
    if "PRIVATE KEY" in text:
        raise BadInput("key: this is a private key, which nobody but you may see", "Give the file that ends in .pub.")
    if len(words) < 2 or words[0] not in TAKEN or "\n" in text.strip():
        raise BadInput(f"key: {shown(text.strip()[:40])} is no public SSH key of one line", HOW_TO_MAKE_ONE)
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise BadInput("key: the middle part is damaged", HOW_TO_MAKE_ONE) from None
    name_length = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + name_length] != words[0].encode():  # the blob names its own type: both must agree
        raise BadInput(f"key: it says {words[0]}, and holds something else", HOW_TO_MAKE_ONE)
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    comment = words[2] if len(words) > 2 else ""
    return Key(fingerprint, user, f"{words[0]} {words[1]}", "".join(letter for letter in comment if letter.isprintable())[:200], now)
