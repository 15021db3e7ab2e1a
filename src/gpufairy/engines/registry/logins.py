"""Who we are to a registry: the file that `docker login` writes, and the address of each registry."""
import base64
import binascii
import json
from dataclasses import dataclass, field
from pathlib import Path

from gpufairy.core.errors import EngineRefused
from gpufairy.core.image_reference import USUAL_HOST

HUB = "registry-1.docker.io"  # who answers for docker.io
HUB_LOGINS = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", HUB)
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
LARGEST_FILE = 2**20
WHERE_LOGINS_ARE = "Write it by `docker login`, and name it in [kubernetes] registry_logins."


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    logins: Path | None = None  # a config.json of Docker's, read anew each time: some passwords last for hours alone
    plain_http: tuple[str, ...] = ()  # hosts that are spoken to without TLS, beside loopback

    def address(self, host: str) -> str:
        bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        scheme = "http" if bare in LOOPBACK or host in self.plain_http else "https"
        return f"{scheme}://{HUB if host == USUAL_HOST else host}"

    def login(self, host: str) -> Login | None:
        """None: nobody in particular. Raises EngineRefused for a file that cannot be read."""
        if self.logins is None:
            return None
        found = self._written()
        for key in HUB_LOGINS if host == USUAL_HOST else (host, f"https://{host}", f"http://{host}"):
            if isinstance(entry := found.get(key), dict):
                return self._login(entry, host)
        return None

    def _written(self) -> dict[str, object]:
        try:
            if self.logins is None or self.logins.stat().st_size > LARGEST_FILE:
                raise ValueError("too long")
            found = json.loads(self.logins.read_bytes()).get("auths")
        except (OSError, ValueError, AttributeError) as error:
            raise EngineRefused(f"the file of registry logins {self.logins} cannot be read: {error}", WHERE_LOGINS_ARE) from error
        return found if isinstance(found, dict) else {}

    def _login(self, entry: dict[str, object], host: str) -> Login:
        try:
            both = entry.get("auth")
            told = base64.b64decode(str(both), validate=True).decode() if both else f"{entry['username']}:{entry['password']}"
        except (KeyError, ValueError, binascii.Error) as error:
            raise EngineRefused(f"the login for {host} in {self.logins} cannot be read", WHERE_LOGINS_ARE) from error
        user, _, password = told.partition(":")
        return Login(user, password)


NO_LOGINS = RegistryAccess()
