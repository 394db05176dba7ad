"""The exceptions for requests that are refused before anything of them is begun. Nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayfloor.client.bodies import REQUEST_BYTES_MAX
from replayfloor.client.errors import OperationError, OperationFacts
from replayfloor.client.options import EXTENSION, read_options
from replayfloor.client.profiles import Profile
from replayfloor.client.trail import Trail
from replayfloor.client.wire import origin_of, path_of
from replayfloor.core.outcome import Outcome

if TYPE_CHECKING:
    import httpx

    from replayfloor.client.library import Library


def refuse_body(library: Library, profile: Profile, request: httpx.Request) -> OperationError:
    """Return the exception for a body that is too large to be kept."""
    options = read_options(request.extensions.get(EXTENSION))
    evidence = f"the body exceeds {REQUEST_BYTES_MAX} bytes"
    advice = (
        f"nothing was sent: the body exceeds the {REQUEST_BYTES_MAX} bytes that are kept to send "
        "it again unchanged"
    )
    facts = _nothing_begun(profile, options.get("operation_id"), options.get("key"), evidence)
    return _about(request, library.errors.body(f"{profile.name}: {advice}", facts))


def refuse_redirect(
    library: Library, profile: Profile, request: httpx.Request, trail: Trail
) -> OperationError:
    """Return the exception for a redirected write that may not take its key along."""
    operation = trail.operation
    # Without what an address may hold besides: a password, or a query.
    target = f"{request.method} {origin_of(request.url)}{path_of(request.url)}"
    advice = (
        f"{operation.method} {operation.origin}{operation.path} was redirected to {target}. "
        "Nothing was sent there: the key is not for that address, and without one a repetition "
        "could be executed twice. If you trust the address, send a new operation to it"
    )
    facts = _nothing_begun(
        profile, operation.operation_id, operation.key, f"redirected to {target}"
    )
    return _about(request, library.errors.redirect(f"{profile.name}: {advice}", facts))


def _nothing_begun(
    profile: Profile, operation_id: str | None, key: str | None, evidence: str
) -> OperationFacts:
    return OperationFacts(
        provider=profile.name,
        operation_id=operation_id,
        key=key,
        outcome=Outcome.NOT_SENT,
        attempts=0,
        first_attempt_at=None,
        elapsed_s=0.0,
        retention_s=profile.retention_s,
        retry_until=None,
        final_status=None,
        evidence=evidence,
        last_response=None,
    )


def _about(request: httpx.Request, error: OperationError) -> OperationError:
    error.request = request
    return error
