"""How many descriptors a process of ours may have."""
import contextlib
import resource


def raise_open_files() -> None:
    """As many as the system lets us: one a workload, and up to five a login. The usual soft limit of 1024 is soon reached, and then all
    are locked out."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # an unlimited hard limit may be refused: then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
