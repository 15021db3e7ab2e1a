"""A month's accounts as one page to print: no script, nothing fetched, everything escaped. English or Korean."""
import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpufairy.core.accounting import AccountBy, AccountRow, Amount
from gpufairy.core.tariff import MILLIJOULES_OF_A_KWH, PART_MICROS_OF_A_GPU_HOUR, Tariff

STYLE = """
body{font:15px/1.5 system-ui,"Noto Sans KR",sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1c20}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.3rem 0;color:#4a4f58}table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .6rem;border-bottom:1px solid #d5d8dd;text-align:right;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}thead th{border-bottom:2px solid #1a1c20}
tr.total td{font-weight:600;border-top:2px solid #1a1c20}
@media print{body{margin:0;max-width:none}h2{break-after:avoid}tr{break-inside:avoid}}
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CSP = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"

KOREAN = {
    "GPU use": "GPU 사용 내역", "of {owner}": "{owner} 님", "until {until}, not over yet": "{until}까지의 내역이며 아직 끝나지 않았습니다",
    "user": "사용자", "team": "팀", "image": "이미지", "kind of GPU": "GPU 종류", "month": "월", "held": "점유", "used": "사용",
    "energy": "전력량", "cost": "비용", "total": "합계", "none": "없음", "GPU-hours": "GPU 시간", "not known": "알 수 없음",
    "By {what}": "{what}별", "Nobody held a GPU.": "GPU를 점유한 사람이 없습니다.",
    "Of {hours} GPU-hours held nobody could tell how much was used.": "점유된 {hours} GPU 시간은 얼마나 사용되었는지 알 수 없습니다.",
    "The energy of {hours} GPU-hours was not metered.": "{hours} GPU 시간의 전력량은 측정되지 않았습니다.",
    "{hours} GPU-hours were held while no rate was in force.": "{hours} GPU 시간은 요금이 정해지지 않은 기간의 점유입니다.",
    "Prices were changed within this time; each hour is counted at the rate of its day.":
        "이 기간 중에 요금이 바뀌었으며, 각 시간은 그날의 요금으로 계산했습니다.",
    "Exact sums: what is shown is rounded, what is added up is not.": "합계는 정확합니다. 표시된 값만 반올림했습니다.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is printed."""

    period: str
    until: str  # empty: it is over
    owner: str  # empty: of all
    tables: Sequence[tuple[AccountBy, Sequence[AccountRow]]]
    total: Amount
    rates: int  # that were in force, one after the other


def account_html(sheet: Sheet, tariff: Tariff, language: str = "en") -> str:
    say = _Speech(KOREAN if language == "ko" else {})
    title = f"{say('GPU use')} {sheet.period}"
    heads = [say("of {owner}", owner=sheet.owner) if sheet.owner else ""]
    heads.append(say("until {until}, not over yet", until=sheet.until) if sheet.until else "")
    body = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(words)}</p>" for words in heads if words)]
    if not sheet.total.held:
        body.append(f"<p>{escape(say('Nobody held a GPU.'))}</p>")
    body += [_table(by, rows, sheet.total, tariff, say) for by, rows in sheet.tables if rows]
    body += [f"<p>{escape(words)}</p>" for words in notes(sheet, say)]
    return (
        f'<!doctype html>\n<html lang="{"ko" if language == "ko" else "en"}"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


class _Speech:
    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words

    def __call__(self, text: str, **values: str) -> str:
        return self._words.get(text, text).format(**values)


WHAT = {
    AccountBy.USER: "user", AccountBy.TEAM: "team", AccountBy.IMAGE: "image", AccountBy.KIND: "kind of GPU", AccountBy.MONTH: "month",
}  # fmt: skip


def _table(by: AccountBy, rows: Sequence[AccountRow], total: Amount, tariff: Tariff, say: _Speech) -> str:
    what, hours = say(WHAT[by]), say("GPU-hours")
    columns = [what, f"{say('held')}, {hours}", f"{say('used')}, {hours}", f"{say('energy')}, kWh"]
    columns += [say("cost")] if tariff.rates else []
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join(f"<tr>{_cells(row.name or say('none'), row.amount, tariff, say)}</tr>" for row in rows)
    foot = f'<tr class="total">{_cells(say("total"), total, tariff, say)}</tr>'
    return f"<h2>{escape(say('By {what}', what=what))}</h2>\n<table><thead><tr>{head}</tr></thead><tbody>{lines}{foot}</tbody></table>"


def _cells(name: str, amount: Amount, tariff: Tariff, say: _Speech) -> str:
    unknown = say("not known")
    figures = [
        hours_shown(amount.held), unknown if amount.used is None else hours_shown(amount.used),
        unknown if amount.energy is None else kwh_shown(amount.energy),
        *([unknown if amount.cost is None else tariff.shown(amount.cost)] if tariff.rates else []),
    ]  # fmt: skip
    return "".join(f"<td>{escape(text)}</td>" for text in (name, *figures))


def notes(sheet: Sheet, say: _Speech) -> list[str]:
    total = sheet.total
    told = (
        (total.unknown, "Of {hours} GPU-hours held nobody could tell how much was used."),
        (total.energy_unknown, "The energy of {hours} GPU-hours was not metered."),
        (total.unpriced if sheet.rates else 0, "{hours} GPU-hours were held while no rate was in force."),
    )
    found = [say(words, hours=hours_shown(amount)) for amount, words in told if hours_shown(amount) != hours_shown(0)]
    if sheet.rates > 1:
        found.append(say("Prices were changed within this time; each hour is counted at the rate of its day."))
    return [*found, say("Exact sums: what is shown is rounded, what is added up is not.")] if total.held else found


def hours_shown(part_micros: int) -> str:
    return f"{part_micros / PART_MICROS_OF_A_GPU_HOUR:,.2f}"


def kwh_shown(millijoules: int) -> str:
    return f"{millijoules / MILLIJOULES_OF_A_KWH:,.3f}"
