"""The page of a month that is printed: by user, team, image and kind, of a year also by month."""
from gpufairy.control.accounting import Account
from gpufairy.control.house import House
from gpufairy.core.account_html import Sheet, account_html
from gpufairy.core.accounting import AccountBy


def account_page(house: House, found: Account, language: str) -> bytes:
    tariff = house.tariff
    kinds = [AccountBy.USER, AccountBy.TEAM, AccountBy.KIND, AccountBy.IMAGE]
    if "-" not in found.period.name:
        kinds.insert(0, AccountBy.MONTH)
    until = "" if found.is_over else f"{found.until.astimezone(tariff.zone):%Y-%m-%d %H:%M %Z}"
    rates = sum(rate is not None for _, _, rate in tariff.stretches(found.period.since, found.until))
    sheet = Sheet(found.period.name, until, found.owner or "", [(by, found.rows(by)) for by in kinds], found.total, rates)
    return account_html(sheet, tariff, language).encode()
