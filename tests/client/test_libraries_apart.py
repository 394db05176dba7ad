"""httpx and httpx2 side by side: a class of the wrong one is refused in words, before anything."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

import httpx
import httpx2
import pytest

import replayfloor.client.httpx2 as for_httpx2
from client.clients import NO_TLS, PROFILE
from client.loopback import Loopback
from replayfloor.client import AsyncIdempotentTransport, IdempotentTransport
from replayfloor.core.errors import ConfigurationError, UsageError

OURS = "replayfloor.client"


def test_an_inner_transport_of_httpx2_is_refused() -> None:
    inner = cast("httpx.BaseTransport", httpx2.HTTPTransport(verify=NO_TLS))
    with pytest.raises(ConfigurationError, match=r"httpx\.BaseTransport.*replayfloor\.client\.h"):
        IdempotentTransport(inner, profile=PROFILE, journal="memory:")


def test_an_inner_transport_of_httpx_is_refused_for_httpx2() -> None:
    inner = cast("httpx2.AsyncBaseTransport", httpx.AsyncHTTPTransport(verify=NO_TLS))
    with pytest.raises(ConfigurationError, match=r"take httpx2\..*transports of replayfloor"):
        for_httpx2.AsyncIdempotentTransport(inner, profile=PROFILE, journal="memory:")


def test_an_asynchronous_inner_transport_is_refused_by_the_blocking_one() -> None:
    inner = cast("httpx.BaseTransport", httpx.AsyncHTTPTransport(verify=NO_TLS))
    with pytest.raises(ConfigurationError, match=r"httpx\.BaseTransport, not httpx\.AsyncHTTP"):
        IdempotentTransport(inner, profile=PROFILE, journal="memory:")


def test_a_client_of_httpx2_cannot_send_through_a_transport_of_httpx(loopback: Loopback) -> None:
    transport = IdempotentTransport(profile=PROFILE, journal="memory:")
    with (
        httpx2.Client(transport=cast("httpx2.BaseTransport", transport)) as client,
        pytest.raises(UsageError, match=r"httpx2\.Request: use the transports of .*\.httpx2"),
    ):
        client.post(loopback.url())

    assert loopback.received == []


@pytest.mark.anyio
async def test_a_client_of_httpx_cannot_send_through_a_transport_of_httpx2(
    loopback: Loopback,
) -> None:
    transport = for_httpx2.AsyncIdempotentTransport(profile=PROFILE, journal="memory:")
    wrong = cast("httpx.AsyncBaseTransport", transport)
    async with httpx.AsyncClient(transport=wrong) as client:
        with pytest.raises(UsageError, match=r"not httpx\.Request"):
            await client.get(loopback.url())

    assert loopback.received == []


@pytest.mark.parametrize("kind", [IdempotentTransport, AsyncIdempotentTransport])
def test_a_transport_that_repeats_by_itself_is_refused(
    kind: type[IdempotentTransport] | type[AsyncIdempotentTransport],
) -> None:
    inner = {
        IdempotentTransport: httpx.HTTPTransport,
        AsyncIdempotentTransport: httpx.AsyncHTTPTransport,
    }[kind](retries=1, verify=NO_TLS)
    with pytest.raises(ConfigurationError, match="retries=1"):
        kind(inner, profile=PROFILE, journal="memory:")  # type: ignore[arg-type]


def test_a_transport_of_ours_is_not_put_into_another() -> None:
    inner = IdempotentTransport(profile=PROFILE, journal="memory:")
    with pytest.raises(ConfigurationError, match="by itself"):
        IdempotentTransport(inner, profile=PROFILE, journal="memory:")


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="retires"):
        IdempotentTransport(
            profile=PROFILE,
            journal="memory:",
            retires=None,  # type: ignore[call-arg]
        )


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_httpx2_alone_is_enough() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import httpx2\n"
        "from replayfloor.client import Profile, OutcomePending\n"
        "from replayfloor.client.httpx2 import IdempotentTransport, wrap_client\n"
        "profile = Profile(name='p', retention_s=60)\n"
        "httpx2.Client(transport=IdempotentTransport(profile=profile, journal='memory:'))\n"
        "try:\n"
        "    from replayfloor.client import IdempotentTransport\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = _python(code)

    assert done.returncode == 0, done.stderr
    assert "needs httpx" in done.stdout
    assert "replayfloor.client.httpx2" in done.stdout


def test_httpx_alone_is_enough() -> None:
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "import replayfloor.client, httpx\n"
        "profile = replayfloor.client.Profile(name='p', retention_s=60)\n"
        "replayfloor.client.IdempotentTransport(profile=profile, journal='memory:')\n"
        "replayfloor.client.wrap_client(httpx.Client(), profile=profile, journal='memory:')\n"
        "try:\n"
        "    import replayfloor.client.httpx2\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = _python(code)

    assert done.returncode == 0, done.stderr
    assert "pip install 'replayfloor[httpx2]'" in done.stdout


def test_where_httpx_is_an_alias_of_httpx2_the_transports_serve_it(loopback: Loopback) -> None:
    code = (
        "import httpx2; httpx2.alias_httpx()\n"
        "import httpx; assert httpx.Client is httpx2.Client\n"
        "from replayfloor.client import IdempotentTransport, OutcomePending, Profile\n"
        "profile = Profile(name='p', retention_s=60)\n"
        "transport = IdempotentTransport(profile=profile, journal='memory:')\n"
        "with httpx.Client(transport=transport) as client:\n"
        f"    print(client.post({loopback.url()!r}).status_code)\n"
    )
    done = _python(code)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "201"
    assert len(loopback.keys()) == 1
