"""What people write before the @: NAME, or NAME+SESSION. Anything else is nobody."""
from dataclasses import dataclass

from gpufairy.core.names import SESSION_NAME, USER_NAME

LONGEST_LOGIN = 80  # 31 of a user, a plus, 40 of a session


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    session: str | None  # None: the only one, else the default one

    def __str__(self) -> str:
        return self.user if self.session is None else f"{self.user}+{self.session}"


def read_login(sent: bytes) -> Login | None:
    """Of the bytes as they came: nothing is folded or normalized, so that no look-alike becomes somebody."""
    if len(sent) > LONGEST_LOGIN or not sent.isascii():
        return None
    user, plus, session = sent.decode("ascii").partition("+")
    if not USER_NAME.fullmatch(user) or (plus and not SESSION_NAME.fullmatch(session)):
        return None
    return Login(user, session if plus else None)
