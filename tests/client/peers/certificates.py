"""A certificate of 127.0.0.1 for one run, and both ends' TLS settings with it."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a certificate and its key are. It is its own authority."""

    certificate: Path
    key: Path

    def server(self, *protocols: str) -> ssl.SSLContext:
        """Return a server's settings; it offers these protocols by ALPN."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    def client(self) -> ssl.SSLContext:
        """Return the settings of a client that believes this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_identity(folder: Path) -> Identity:
    """Write a certificate of the loopback and its key to a folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    identity = Identity(folder / "loopback.crt", folder / "loopback.key")
    identity.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    identity.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return identity


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """A certificate of the loopback, one for the run."""
    return make_identity(tmp_path_factory.mktemp("certificate"))
