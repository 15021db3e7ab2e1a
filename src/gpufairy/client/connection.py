"""Where to connect and as whom: options first, then the environment, then ~/.config/gpufairy/config.toml.

A token is only ever sent to the server that it was stored beside: `--server` elsewhere does not take it along.
"""
import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpufairy.client.protocol import checked_token, parse_url
from gpufairy.core.errors import BadInput, NotSignedIn

MOST_KEPT = 20  # earlier sign-ins
HOW_TO_SIGN_IN = "Run `fairy up` to start a server here, or `fairy login URL` to sign in to one."


@dataclass(frozen=True, slots=True)
class Connection:
    """Where, and with which token. `others`: sign-ins to other servers, kept beside it."""

    url: str
    token: str
    others: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:  # a dataclass would print the token into a traceback
        return f"Connection({self.url!r}, token=…)"


def find(server: str | None, token_file: Path | None, env: Mapping[str, str]) -> Connection:
    """What the options and the environment say, and for what they leave open, what was stored at sign-in."""
    stored = load(env)
    url = server or env.get("FAIRY_URL") or (stored.url if stored else None)
    if url is None:
        raise NotSignedIn("not signed in: there is no --server, no FAIRY_URL and no stored sign-in", HOW_TO_SIGN_IN)
    url = url.strip().rstrip("/")
    parse_url(url)
    token = _token(url, token_file, env, stored)
    if token is None:
        raise NotSignedIn(f"not signed in to {url}: no token was found for it", f"Run `fairy login {url}`, or use --token-file.")
    return Connection(url, token)


def _token(url: str, token_file: Path | None, env: Mapping[str, str], stored: Connection | None) -> str | None:
    if token_file is not None:
        return read_token(token_file)
    if env.get("FAIRY_URL", url).strip().rstrip("/") == url:
        if env.get("FAIRY_TOKEN"):
            return checked_token(env["FAIRY_TOKEN"], "FAIRY_TOKEN")
        if env.get("FAIRY_TOKEN_FILE"):
            return read_token(Path(env["FAIRY_TOKEN_FILE"]))
    return {**stored.others, stored.url: stored.token}.get(url) if stored is not None else None


def read_token(path: Path) -> str:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the token file {path}: {error}", "Check its name and that it is yours.") from error
    return checked_token(text, str(path))


def config_folder(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CONFIG_HOME") or ""
    # The XDG rule: a relative path there is an error and to be passed over.
    return (Path(base) if base.startswith("/") else Path(env.get("HOME") or Path.home()) / ".config") / "gpufairy"


def load(env: Mapping[str, str]) -> Connection | None:
    """What `save` stored; None if there is nothing."""
    stored = read_toml(config_folder(env) / "config.toml")
    if stored is None:
        return None
    url, token = stored.get("url"), stored.get("token")
    if not isinstance(url, str) or not isinstance(token, str):
        path = config_folder(env) / "config.toml"
        raise BadInput(f'{path} lacks url = "…" or token = "…"', "Sign in again with `fairy login URL`.")
    others = stored.get("servers")
    kept = {str(other): str(text) for other, text in others.items()} if isinstance(others, dict) else {}
    return Connection(url.strip().rstrip("/"), checked_token(token, "the stored sign-in"), kept)


def save(connection: Connection, env: Mapping[str, str]) -> Path:
    """The sign-in used from now on; earlier ones are found again by --server."""
    path = config_folder(env) / "config.toml"
    try:
        stored = load(env)
    except BadInput:  # unreadable: it is written anew
        stored = None
    kept = {**stored.others, stored.url: stored.token} if stored is not None else {}
    others = dict([(url, token) for url, token in kept.items() if url != connection.url][-MOST_KEPT:])
    return write_toml(path, {"url": connection.url, "token": connection.token}, {"servers": others} if others else {})


def read_toml(path: Path) -> Mapping[str, object] | None:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read {path}: {type(error).__name__}", "Sign in again: `fairy login URL` writes it anew.") from error


def write_toml(path: Path, values: Mapping[str, str | int], tables: Mapping[str, Mapping[str, str]] | None = None) -> Path:
    """Whole or not at all, and readable by its owner alone from its first byte on."""
    # JSON's strings and numbers are TOML's too, once DEL is escaped.
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    for table, rows in (tables or {}).items():
        text += f"[{table}]\n" + "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in rows.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
            file.write(text.replace("\x7f", "\\u007f"))
        os.replace(file.name, path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error}", "Check that its folder is yours and has room, or set XDG_CONFIG_HOME.") from error
    return path
