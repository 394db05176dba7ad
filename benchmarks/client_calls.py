"""One caller of the bare application: httpx alone, or through our transport.

`python -m benchmarks.client_calls JOURNAL URL`: JOURNAL is what the transport takes, or `-` for
httpx alone. Reads seconds from its input, one number a line; answers each with an outcome.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Final
from uuid import uuid4

import httpx
from benchmarks.figures import P99, percentile
from benchmarks.load_plan import BODY, WARM_UP_S, Outcome

from replayfloor.client import IdempotentTransport, Profile

ALONE: Final = "-"
RETENTION_S: Final = 86_400
"""What the other side would publish: a day, as most do."""


@contextmanager
def caller(journal: str) -> Iterator[httpx.Client]:
    """Return the client of one contender."""
    if journal == ALONE:
        transport: httpx.BaseTransport = httpx.HTTPTransport()
    else:
        profile = Profile(name="bench", retention_s=RETENTION_S)
        transport = IdempotentTransport(profile=profile, journal=journal)
    with httpx.Client(transport=transport, trust_env=False) as client:
        yield client


def call_for(client: httpx.Client, url: str, seconds: float, *, keyed: bool) -> Outcome:
    """Call for so long, one call after the other."""
    headers = {"Content-Type": "application/json"}
    times: list[int] = []
    cpu, began = process_time(), perf_counter()
    ends = now = began
    ends += seconds
    wrong = ""
    while now < ends and not wrong:
        if keyed:
            headers["Idempotency-Key"] = f'"{uuid4()}"'
        answer = client.post(url, content=BODY, headers=headers)
        if answer.status_code != httpx.codes.CREATED:
            wrong = f"{answer.status_code} {answer.text}"
        was, now = now, perf_counter()
        times.append(round((now - was) * 1e9))
    own = process_time() - cpu
    p50, p99 = (percentile(times, share) / 1e6 for share in (0.5, P99))
    return Outcome(len(times), now - began, own, own, p50, p99, wrong)


def main() -> None:
    """Call for as long as each line of the input says."""
    journal, url = sys.argv[1:]
    with caller(journal) as client:
        call_for(client, url, WARM_UP_S, keyed=journal == ALONE)
        for line in sys.stdin:
            outcome = call_for(client, url, float(line), keyed=journal == ALONE)
            print(outcome.as_json(), flush=True)


if __name__ == "__main__":
    main()
