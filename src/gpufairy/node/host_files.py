"""Small files of /proc and /sys. What cannot be read is empty: not known."""
import os

LARGEST = 4 * 2**20  # bytes; the largest, /proc/stat and the list of mounts, have some 100 KiB on the largest hosts
AT_ONCE = 64 * 1024


def read_text(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        whole = chunk = os.read(descriptor, AT_ONCE)
        while chunk and len(whole) < LARGEST:
            chunk = os.read(descriptor, AT_ONCE)
            whole += chunk
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return whole.decode("utf-8", "replace")


def read_number(path: str) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.removeprefix("-").isdecimal() and len(text) <= 20 else None


def names_in(folder: str) -> list[str]:
    """Sorted: the order of a folder is anybody's."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
