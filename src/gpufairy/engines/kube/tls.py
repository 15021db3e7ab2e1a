"""Whom we believe, and by which certificate we are known. OpenSSL takes files only: what is no file is one in memory for a moment."""
import os
import ssl

from gpufairy.core.errors import BadInput


def trusting(authority: bytes | None, what: str) -> ssl.SSLContext:
    """None: whoever this machine trusts."""
    try:
        if authority is not None and not authority.strip():
            raise ValueError("it is empty")  # which Python would take for None
        tls = ssl.create_default_context(cadata=None if authority is None else authority.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(f"{what}: its certificate authority cannot be read ({error})", "It must be certificates in PEM.") from error
    # From Python 3.13 on, a certificate is refused for its form too, and those of EKS have no key identifiers: nobody
    # could reach such a cluster. Chain, time and host name are checked as ever. (wire/tls.py does so for all others.)
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    tls.set_alpn_protocols(["http/1.1"])
    return tls


def trusting_anybody() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return tls


def prove(tls: ssl.SSLContext, certificate: bytes, key: bytes, what: str) -> None:
    descriptor = os.memfd_create("client-certificate")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        tls.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: b"none")  # without it, it would ask at the terminal
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"{what}: its client certificate and key cannot be used ({error})", "They must be a pair, in PEM.") from error
    finally:
        os.close(descriptor)
