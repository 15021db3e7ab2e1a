"""`fairy key`: the SSH keys that open your sessions."""
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpufairy.cli.options import AsJson, connect, example_text, group
from gpufairy.cli.tables import print_table
from gpufairy.cli.words import print_json
from gpufairy.client.protocol import Record
from gpufairy.client.values import safe
from gpufairy.core.errors import BadInput

app = group("Your public SSH keys: they let you into your sessions by ssh.", "fairy key add ~/.ssh/id_ed25519.pub")

USUAL_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")
LARGEST_KEY_BYTES = 16 * 1024  # an RSA key of 16384 bits has 3 KiB

ForUser = Annotated[str | None, typer.Option("--user", metavar="USER", help="Another user's, for admins.")]


@app.command(epilog=example_text("fairy key add\nfairy key add ~/.ssh/id_ed25519.pub"))
def add(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The public key; - for stdin. Else the usual one of yours.")] = None,
    user: ForUser = None,
    as_json: AsJson = False,
) -> None:
    """Add a public key."""
    body: Record = {"key": read_key(file or usual_key(Path.home() / ".ssh"))}
    with connect(ctx) as fairy:
        made = fairy.add_key(body if user is None else {**body, "user": user})
    if as_json:
        print_json(made)
    else:
        print(f"added {safe(made.get('fingerprint'))}")


def usual_key(folder: Path) -> Path:
    for name in USUAL_KEYS:
        if (folder / name).is_file():
            return folder / name
    raise BadInput(f"{folder} has none of {', '.join(USUAL_KEYS)}", "Make one with `ssh-keygen -t ed25519`, or name the file.")


def read_key(file: Path) -> str:
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(LARGEST_KEY_BYTES + 1)
        else:
            with file.open("rb") as stream:
                data = stream.read(LARGEST_KEY_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read the key {file}: {error.strerror}", "Name the file of a public key, such as id_ed25519.pub.") from error
    if b"PRIVATE KEY" in data:  # never sent, not even to be refused
        raise BadInput(f"{file} is a private key, which never leaves your machine", f"Use its public half: {file}.pub")
    if len(data) > LARGEST_KEY_BYTES or not data.isascii() or len(data.split()) < 2:
        raise BadInput(f"{file} is no public SSH key", "It is one line that begins like ssh-ed25519 AAAA….")
    return data.decode().strip()


@app.command("list", epilog=example_text("fairy key list"))
def list_keys(ctx: typer.Context, user: ForUser = None, as_json: AsJson = False) -> None:
    """List your keys."""
    with connect(ctx) as fairy:
        keys = fairy.keys(user)
    if as_json:
        print_json({"items": keys})
    elif not keys:
        print("No keys. Try: fairy key add ~/.ssh/id_ed25519.pub")
    else:
        rows = [[safe(key.get("fingerprint")), safe(key.get("user")), safe(key.get("comment"))] for key in keys]
        print_table(["FINGERPRINT", "USER", "COMMENT"], rows)


@app.command(epilog=example_text("fairy key remove SHA256:mVPwvezndPv/ARoIadVY98vAC0g+P/5633yTC4d/wXE"))
def remove(
    ctx: typer.Context,
    fingerprint: Annotated[str, typer.Argument(metavar="FINGERPRINT", help="As `fairy key list` shows it.")],
    user: ForUser = None,
) -> None:
    """Remove a key; whoever is signed in with it is sent away."""
    with connect(ctx) as fairy:
        fairy.remove_key(fingerprint, user)
    print(f"{safe(fingerprint)} is removed")
