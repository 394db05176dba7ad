"""The server's process: payments_fastapi under uvicorn, until it is killed. Nothing of the demo."""

from __future__ import annotations

import sys

import uvicorn

from processes import die_with_parent
from settings import EXAMPLES


def main(port: str) -> None:
    """Serve on 127.0.0.1; RECEIPTS, LOCK and LEASE_S come from the environment."""
    die_with_parent()
    uvicorn.run(
        "payments_fastapi:app",
        app_dir=str(EXAMPLES),
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
