"""How long faults last: short in ./test, as promised by `python -m tests.faults --full`."""
import os

FULL = "FAIRY_FAULTS_FULL"


def length_s(*, short: float, full: float) -> float:
    return full if os.environ.get(FULL) else short
