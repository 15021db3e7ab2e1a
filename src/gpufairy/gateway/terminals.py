"""The client's terminal settings, as far as a session's terminal should follow them."""
import contextlib
import termios
from collections.abc import Mapping

# RFC 4254, section 8. Only what no shell changes for itself: the rest it may have set already when we come to it.
KEYS = {1: termios.VINTR, 2: termios.VQUIT, 3: termios.VERASE, 4: termios.VKILL, 5: termios.VEOF, 10: termios.VSUSP}
UTF8_MODE = 42  # RFC 8160: without it, erasing a Korean letter in a cooked line leaves half of it behind
IUTF8 = 0o40000  # not in Python's termios
KEY_OFF = 255
INPUT_FLAGS, KEYS_AT = 0, 6  # places in what tcgetattr gives


def apply_modes(terminal: int, modes: Mapping[int, int]) -> None:
    with contextlib.suppress(termios.error):  # its shell is gone already
        settings = termios.tcgetattr(terminal)
        if modes.get(UTF8_MODE):
            settings[INPUT_FLAGS] |= IUTF8
        for mode, place in KEYS.items():
            if mode in modes:
                settings[KEYS_AT][place] = bytes([0 if modes[mode] >= KEY_OFF else modes[mode]])
        termios.tcsetattr(terminal, termios.TCSANOW, settings)
