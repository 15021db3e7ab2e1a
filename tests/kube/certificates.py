"""A certificate authority of the tests' own, for the API server and those who prove themselves to it by certificates."""
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = timedelta(days=2)


class Authority:
    """Writes NAME.crt and NAME.key into its folder; its own are ca.crt and ca.key."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key, self._name = folder, ec.generate_private_key(ec.SECP256R1()), named("tests")
        self._write("ca", self._key, begun(self._name, self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True))

    def server(self, name: str, *addresses: str) -> None:
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        self._issue(name, named(name), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, name: str, user: str, group: str) -> None:
        """Who is who, as Kubernetes reads certificates."""
        self._issue(name, named(user, group), ExtendedKeyUsageOID.CLIENT_AUTH)

    def accounts(self, name: str) -> None:
        """A key alone, to sign the tokens of service accounts."""
        self._write_key(name, rsa.generate_private_key(65537, 2048))

    def _issue(self, name: str, subject: x509.Name, use: x509.ObjectIdentifier, *more: x509.ExtensionType) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = begun(subject, self._name, key).add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        self._write(name, key, builder)

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, builder: x509.CertificateBuilder) -> None:
        certificate = builder.sign(self._key, hashes.SHA256())
        (self._folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._write_key(name, key)

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        (self._folder / f"{name}.key").write_bytes(key.private_bytes(*form))


def named(name: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + DAYS)
