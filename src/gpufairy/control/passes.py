"""Passes: the token a session is given to speak for its owner. Signed, not stored; good while that very attempt is alive."""
import base64
import hashlib
import hmac

from gpufairy.core.session import Session
from gpufairy.core.workload import WorkloadId

PREFIX = "fairyp_"
GATEWAY_PREFIX = "fairyg_"


def make_pass(secret: bytes, session: Session) -> str:
    return f"{PREFIX}{session.id}.{session.attempt}.{_signature(secret, session.id, session.attempt)}"


def read_pass(secret: bytes, text: str) -> WorkloadId | None:
    """Whose pass it is, or None if we did not make it."""
    parts = text.removeprefix(PREFIX).split(".")
    if not text.startswith(PREFIX) or len(parts) != 3 or not parts[1].isdecimal() or len(parts[1]) > 6:
        return None
    session_id, attempt, signature = parts[0], int(parts[1]), parts[2]
    if not hmac.compare_digest(signature.encode(), _signature(secret, session_id, attempt).encode()):
        return None
    return WorkloadId(session_id, attempt)


def make_gateway_pass(secret: bytes) -> str:
    """The SSH gateway's: it lies in the data folder, readable by the server's own account alone."""
    return f"{GATEWAY_PREFIX}{_signature(secret, 'gateway', 0)}"


def is_gateway_pass(secret: bytes, text: str) -> bool:
    return text.startswith(GATEWAY_PREFIX) and hmac.compare_digest(text.encode(), make_gateway_pass(secret).encode())


def _signature(secret: bytes, session_id: str, attempt: int) -> str:
    digest = hmac.digest(secret, f"{session_id}.{attempt}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
