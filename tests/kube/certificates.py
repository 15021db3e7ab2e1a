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
    """Writes NAME.crt and NAME.key into its folder; its own are ca.crt and ca.key.

    `has_identifiers`: with key identifiers and uses in each certificate, as RFC 5280 wants it; without, as EKS
    has them, and as old scripts make them."""

    def __init__(self, folder: Path, *, has_identifiers: bool = True) -> None:
        self._folder, self._key, self._name = folder, ec.generate_private_key(ec.SECP256R1()), named("tests")
        self._has_identifiers = has_identifiers
        own = begun(self._name, self._name, self._key)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._write("ca", self._key, own, SIGNS)

    def server(self, name: str, *addresses: str, has_ended: bool = False) -> None:
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        self._issue(name, named(name), ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names), has_ended=has_ended)

    def client(self, name: str, user: str, group: str) -> None:
        """Who is who, as Kubernetes reads certificates."""
        self._issue(name, named(user, group), ExtendedKeyUsageOID.CLIENT_AUTH)

    def accounts(self, name: str) -> None:
        """A key alone, to sign the tokens of service accounts."""
        self._write_key(name, rsa.generate_private_key(65537, 2048))

    def _issue(self, name: str, subject: x509.Name, use: x509.ObjectIdentifier, *more: x509.ExtensionType, has_ended: bool = False) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = begun(subject, self._name, key, has_ended=has_ended).add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        self._write(name, key, builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True), PROVES)

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, builder: x509.CertificateBuilder, use: x509.KeyUsage) -> None:
        if self._has_identifiers:
            whose = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            builder = builder.add_extension(whose, critical=False).add_extension(use, critical=True)
        certificate = builder.sign(self._key, hashes.SHA256())
        (self._folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._write_key(name, key)

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
        form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        (self._folder / f"{name}.key").write_bytes(key.private_bytes(*form))


def uses(**only: bool) -> x509.KeyUsage:
    every = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: only.get(name, False) for name in every})


SIGNS, PROVES = uses(key_cert_sign=True, crl_sign=True), uses(digital_signature=True)


def named(name: str, group: str = "") -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, has_ended: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now - timedelta(minutes=1) if has_ended else now + DAYS
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(hours=1)).not_valid_after(end)
