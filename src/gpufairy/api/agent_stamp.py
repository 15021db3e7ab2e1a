"""The stamp of a report, from its headers: which of its sender's it is, and who signed it."""
import base64
import binascii

from fastapi import Request

from gpufairy.api.door import LARGEST_NUMBER
from gpufairy.control.agents import Stamp
from gpufairy.core.errors import NotSignedIn


def stamp_of(request: Request) -> Stamp:
    epoch, sequence, signature = (request.headers.get(f"fairy-{name}", "")[:200] for name in ("epoch", "sequence", "signature"))
    if not sequence.isdecimal() or not 0 < int(sequence) <= LARGEST_NUMBER:
        raise NotSignedIn("a report must be signed by the host's agent, and this one is not", "Send reports with `fairy agent`.")
    try:
        return Stamp(epoch, int(sequence), base64.b64decode(signature, validate=True))
    except (binascii.Error, ValueError):
        raise NotSignedIn("Fairy-Signature: expected base64", "Send reports with `fairy agent`.") from None
