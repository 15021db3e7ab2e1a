"""Whom gpufairy believes when it calls others by TLS: mail and sign-in services, webhooks, registries, servers. The same on
every Python. Clusters are called by engines/kube, which has a page of its own for it."""
import functools
import ssl


def trust_authorities(*, file: str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Those in the file, those in the text (PEM), or whoever this machine trusts.

    Raises OSError, ssl.SSLError, ValueError."""
    tls = ssl.create_default_context(cafile=file, cadata=text)
    # From Python 3.13 on, a certificate is refused for its form too: one without key identifiers, as those of EKS
    # are, or of an authority that a lab made by a script of ten lines. Nobody could reach their own cluster.
    # Chain, time and host name are checked as ever.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls


@functools.cache
def trust_machine() -> ssl.SSLContext:
    """For HTTP in an event loop, which would stand still for tens of milliseconds at each reading: made once."""
    tls = trust_authorities()
    tls.set_alpn_protocols(["http/1.1"])
    return tls
