"""Accounts as CSV: one line a row, exact figures beside readable ones."""
from collections.abc import Sequence
from decimal import Decimal

from gpufairy.core.accounting import AccountBy, AccountRow, Amount
from gpufairy.core.csv_text import csv_text
from gpufairy.core.tariff import MILLIJOULES_OF_A_KWH, MILLION, PART_MICROS_OF_A_GPU_HOUR

COLUMNS = (
    "held_gpu_hours", "used_gpu_hours", "use_unknown_gpu_hours", "energy_kwh", "energy_unknown_gpu_hours", "cost", "currency",
    "unpriced_gpu_hours", "held_part_us",
)  # fmt: skip
TOTAL = "total"


def account_csv(rows: Sequence[AccountRow], total: Amount, by: AccountBy, currency: str) -> str:
    """The last line is the total."""
    lines = [[row.name, *cells(row.amount, currency)] for row in rows]
    return csv_text((by.value, *COLUMNS), [*lines, [TOTAL, *cells(total, currency)]], mark=True)


def cells(amount: Amount, currency: str) -> list[object]:
    return [
        hours_text(amount.held), None if amount.used is None else hours_text(amount.used), hours_text(amount.unknown),
        None if amount.energy is None else f"{Decimal(amount.energy) / MILLIJOULES_OF_A_KWH:.6f}", hours_text(amount.energy_unknown),
        None if amount.cost is None else f"{Decimal(amount.cost) / MILLION:.6f}", currency, hours_text(amount.unpriced), amount.held,
    ]  # fmt: skip


def hours_text(part_micros: int) -> str:
    return f"{Decimal(part_micros) / PART_MICROS_OF_A_GPU_HOUR:.6f}"
