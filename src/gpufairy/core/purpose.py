"""What somebody comes into a session for."""
from enum import StrEnum


class Purpose(StrEnum):
    SHELL = "shell"  # needs a session, which is started if there is none
    FILES = "files"  # needs the user's folders alone
