"""`replayfloor storage …`: what receipts cost on disk, computed before and measured after."""

from __future__ import annotations

import json
from typing import Annotated, TypeAlias

import typer

from replayfloor.retention.storage import (
    BYTES_PER_KEY,
    TOMBSTONE_BYTES,
    Estimate,
    render_estimate,
    size_text,
)
from replayfloor.server.cli_common import Url, as_lines, failures_as_exit_codes, say
from replayfloor.server.stores.storage_measured import Measured, measure

app = typer.Typer(help="What receipts cost on disk.", no_args_is_help=True)

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Exact: TypeAlias = Annotated[
    bool, typer.Option("--exact", help="Count the rows, which reads the whole table.")
]


@app.command()
def estimate(
    *,
    rate: Annotated[float, typer.Option(help="New keys a second, on average over a day.")],
    days: Annotated[float, typer.Option(help="For how many days receipts are kept.")],
    bytes_per_key: Annotated[
        float, typer.Option(help="Of one receipt, index included, and its answer if one is kept.")
    ] = BYTES_PER_KEY,
    tombstones: Annotated[
        float, typer.Option(help="For how many more days a key is known as used (--audit).")
    ] = 0.0,
    measured: Annotated[
        str | None,
        typer.Option("--measure", help="Measure this database beside it.", metavar="URL"),
    ] = None,
    exact: Exact = False,
    as_json: AsJson = False,
) -> None:
    """Compute what receipts will take: replayfloor storage estimate --rate 20 --days 30."""
    with failures_as_exit_codes():
        expected = Estimate(rate, days, bytes_per_key, tombstones)
        found = measure(measured, exact=exact) if measured is not None else []
    if as_json:
        document: dict[str, object] = dict(expected.as_dict())
        if measured is not None:
            document["measured"] = [_json(each) for each in found]
        say(json.dumps(document))
        return
    for line in render_estimate(expected):
        say(line)
    if found:
        say("")
        for line in _lines(found, bytes_per_key):
            say(line)
        say(_share(found[0], expected))


@app.command("measure")
def measure_command(url: Url, *, exact: Exact = False, as_json: AsJson = False) -> None:
    """Read what the receipts of a Postgres database take, beside what the estimate counts with."""
    with failures_as_exit_codes():
        found = measure(url, exact=exact)
    if as_json:
        say(json.dumps([_json(each) for each in found]))
        return
    for line in _lines(found, BYTES_PER_KEY):
        say(line)


def _lines(found: list[Measured], expected_receipt: float) -> list[str]:
    expected = {"receipts": expected_receipt, "proofs": float(TOMBSTONE_BYTES)}
    rows = [
        (
            each.table,
            f"{each.rows:,}",
            f"{each.dead_rows:,}",
            size_text(each.heap),
            size_text(each.indexes),
            size_text(each.total),
            "-" if each.bytes_per_key is None else f"{each.bytes_per_key:.1f}",
            f"{expected[each.table]:g}",
        )
        for each in found
    ]
    header = ("measured", "rows", "dead", "heap", "indexes", "together", "B a key", "estimate")
    return as_lines(header, rows)


def _share(receipts: Measured, expected: Estimate) -> str:
    share = receipts.total / expected.receipt_bytes
    return (
        f"receipts take {size_text(receipts.total)} of the {size_text(expected.receipt_bytes)} "
        f"that are expected once the retention is full: {share:.1%}"
    )


def _json(each: Measured) -> dict[str, object]:
    return {
        "table": each.table,
        "rows": each.rows,
        "dead_rows": each.dead_rows,
        "heap_bytes": each.heap,
        "index_bytes": each.indexes,
        "total_bytes": each.total,
        "bytes_per_key": each.bytes_per_key,
    }
