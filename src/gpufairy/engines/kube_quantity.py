"""Kubernetes' quantities: 500m, 16Gi, 1e3."""
from decimal import Decimal, InvalidOperation

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FACTORS = {name: Decimal(factor) for name, factor in _BINARY.items()} | {name: Decimal(10) ** power for name, power in _DECIMAL.items()}


def quantity(text: object) -> Decimal | None:
    """None: not readable."""
    told = str(text).strip()
    for suffix, factor in _FACTORS.items():
        if told.endswith(suffix):
            return _number(told.removesuffix(suffix), factor)
    return _number(told, Decimal(1))


def _number(text: str, factor: Decimal) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number * factor if number.is_finite() else None


def milli(text: object) -> int:
    """Of a CPU; 0 for what cannot be read."""
    found = quantity(text)
    return 0 if found is None else int(found * 1000)


def whole(text: object) -> int:
    found = quantity(text)
    return 0 if found is None else int(found)
