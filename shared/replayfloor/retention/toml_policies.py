"""Policies from the text of a file: what each table means. Opens no file.

    [senders.shop]                    who delivers to us
    automatic_retry = "72h"
    manual_resend = "unknown"         refused, until somebody chooses

    [inbound.hooks]                   how long receipts are kept
    senders = ["shop"]
    planned_outage = { value = "12h", source = "runbook, chapter 3", read_on = 2026-11-30 }

    [outbound.refunds]                until when our client may retry
    provider = "stripe-v1"
    retry_budget = "120s"

A sender of the file with the name of one in the catalogue changes that one, figure by figure.
"""

from __future__ import annotations

from typing import Final

from replayfloor.retention.errors import PolicyError
from replayfloor.retention.inbound import RETENTION_WITHOUT_DERIVATION, InboundPolicy
from replayfloor.retention.lookup import Catalogue, NoCatalogue
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.parties import SENDER_TERMS, Provider, Sender
from replayfloor.retention.policies import INBOUND, OUTBOUND, Policies
from replayfloor.retention.terms import Term, TermKind
from replayfloor.retention.toml_table import Document, Table, did_you_mean, read_document
from replayfloor.retention.toml_terms import SYNONYMS, read_term, says_where_from

SENDERS, PROVIDER = "senders", "provider"
TABLES: Final = (INBOUND, OUTBOUND, SENDERS)
CATALOGUE_TABLES: Final = ("providers", "brokers")
"""Tables of the same file that are not read here, but by the catalogue."""

INBOUND_HORIZONS: Final = (TermKind.CLIENT_RETRY_BUDGET, TermKind.BROKER_REDELIVERY)
INBOUND_TERMS: Final = (
    *INBOUND_HORIZONS,
    TermKind.RECONCILIATION_CADENCE,
    TermKind.PLANNED_OUTAGE,
    TermKind.SAFETY_MARGIN,
    TermKind.RETENTION,
)
OUTBOUND_TERMS: Final = (
    TermKind.KEY_RETENTION,
    TermKind.RETRY_BUDGET,
    TermKind.JOB_QUEUE_DELAY,
    TermKind.PLANNED_OUTAGE,
    TermKind.MANUAL_RERUN,
    TermKind.SAFETY_MARGIN,
)


def parse_policies(
    text: str,
    file_name: str,
    *,
    catalogue: Catalogue | None = None,
    prefix: tuple[str, ...] = (),
) -> Policies:
    """Return the policies of a TOML text.

    Args:
        text: the content of the file.
        file_name: its name, for messages.
        catalogue: where names of senders and providers are looked up that the file does not
            define; default: nowhere.
        prefix: the table below which everything stands, such as ("tool", "replayfloor").

    Raises PolicyError with the line. A figure that is unknown, or a retention that is too short,
    is not refused here but by the policy, when it is asked.
    """
    document = read_document(text, file_name)
    root = document.table(prefix) or Table(document, prefix, {})
    _refuse_top(root)
    reader = _Reader(document, prefix, catalogue or NoCatalogue())
    inbound = {name: reader.inbound(table) for name, table in reader.named(INBOUND)}
    outbound = {name: reader.outbound(table) for name, table in reader.named(OUTBOUND)}
    return Policies(document, prefix, inbound, outbound)


def _refuse_top(root: Table) -> None:
    if TermKind.RETENTION.value in root.content:
        raise root.error(
            (TermKind.RETENTION.value,),
            "a retention is derived, not chosen",
            f"write a table [{'.'.join((*map(str, root.path), INBOUND))}.NAME] and "
            f"{RETENTION_WITHOUT_DERIVATION}",
        )
    root.refuse_unknown((*TABLES, *CATALOGUE_TABLES), {"policy": INBOUND, "policies": INBOUND})


class _Reader:
    def __init__(self, document: Document, prefix: tuple[str, ...], catalogue: Catalogue) -> None:
        self._document, self._prefix, self._catalogue = document, prefix, catalogue
        self._senders = {name: self._sender(table) for name, table in self.named(SENDERS)}

    def named(self, group: str) -> list[tuple[str, Table]]:
        """Return the tables of a group, by name."""
        tables = self._document.table((*self._prefix, group))
        if tables is None:
            return []
        for name, content in tables.content.items():
            if not isinstance(content, dict):
                path = ".".join((*self._prefix, group))
                raise tables.error(
                    (name,), f"{path} holds one table for each name", f"write [{path}.NAME] above"
                )
        return list(tables.tables())

    def inbound(self, table: Table) -> InboundPolicy:
        """Return one of our handlers' policies."""
        known = (SENDERS, *(kind.value for kind in INBOUND_TERMS))
        table.refuse_unknown(known, SYNONYMS)
        terms = self._terms(table, INBOUND_TERMS)
        retention = terms[TermKind.RETENTION]
        senders = tuple(self._named_senders(table))
        if not senders and all(terms[kind] is None for kind in INBOUND_HORIZONS):
            at = (TermKind.RETENTION.value,) if retention else ()
            raise table.error(
                at,
                f"{_name(table)}: a retention is derived, not chosen",
                RETENTION_WITHOUT_DERIVATION,
            )
        if retention and retention.seconds is None:
            raise table.error(
                (TermKind.RETENTION.value,), "retention is ours, so it cannot be unknown"
            )
        try:
            return InboundPolicy(
                _name(table),
                senders=senders,
                client_retry_budget=terms[TermKind.CLIENT_RETRY_BUDGET],
                broker_redelivery=terms[TermKind.BROKER_REDELIVERY],
                reconciliation_cadence=terms[TermKind.RECONCILIATION_CADENCE],
                planned_outage=terms[TermKind.PLANNED_OUTAGE],
                safety_margin=terms[TermKind.SAFETY_MARGIN],
                retention=retention,
            )
        except PolicyError as error:
            raise table.error((), error.message, error.advice) from None

    def outbound(self, table: Table) -> OutboundPolicy:
        """Return one of our client's policies."""
        known = (PROVIDER, *(kind.value for kind in OUTBOUND_TERMS))
        table.refuse_unknown(known, SYNONYMS)
        terms = self._terms(table, OUTBOUND_TERMS)
        budget = terms[TermKind.RETRY_BUDGET]
        if budget is None:
            raise table.error(
                (),
                f"{_name(table)}: retry_budget is missing",
                'state how long one call of the client goes on, such as retry_budget = "120s"',
            )
        try:
            return OutboundPolicy(
                _name(table),
                provider=self._provider(table, terms[TermKind.KEY_RETENTION]),
                retry_budget=budget,
                job_queue_delay=terms[TermKind.JOB_QUEUE_DELAY],
                planned_outage=terms[TermKind.PLANNED_OUTAGE],
                manual_rerun=terms[TermKind.MANUAL_RERUN],
                safety_margin=terms[TermKind.SAFETY_MARGIN],
            )
        except PolicyError as error:
            if error.file:
                raise
            raise table.error((), error.message, error.advice) from None

    def _terms(self, table: Table, kinds: tuple[TermKind, ...]) -> dict[TermKind, Term | None]:
        return {kind: read_term(table, kind) for kind in kinds}

    def _named_senders(self, table: Table) -> list[Sender]:
        found: list[Sender] = []
        for at, name in enumerate(table.texts(SENDERS)):
            sender = self._senders.get(name) or self._catalogue.sender(name)
            if sender is None:
                known = (*self._senders, *self._catalogue.sender_names())
                raise table.error(
                    (SENDERS, at),
                    f"no sender {name!r}",
                    f"{did_you_mean(name, known, {})} Or write [{self._path(SENDERS, name)}]",
                )
            found.append(sender)
        return found

    def _sender(self, table: Table) -> Sender:
        table.refuse_unknown((kind.value for kind in SENDER_TERMS), SYNONYMS)
        published = self._catalogue.sender(_name(table))
        terms = {term.name: term for term in (published.terms if published else ())}
        for kind in SENDER_TERMS:
            given = read_term(table, kind)
            if given is not None:
                _refuse_unsaid(table, given, terms.get(kind), shorter=True)
                terms[kind] = given
        try:
            return Sender(
                _name(table),
                automatic_retry=terms.get(TermKind.AUTOMATIC_RETRY),
                manual_resend=terms.get(TermKind.MANUAL_RESEND),
                broker_redelivery=terms.get(TermKind.BROKER_REDELIVERY),
            )
        except PolicyError as error:
            raise table.error((), error.message, error.advice) from None

    def _provider(self, table: Table, given: Term | None) -> Provider:
        name = table.text(PROVIDER)
        published = None if name is None else self._catalogue.provider(name)
        if given is not None:
            known = None if published is None else published.key_retention
            _refuse_unsaid(table, given, known, shorter=False)
            return Provider(name or _name(table), key_retention=given)
        if published is not None:
            return published
        if name is None:
            raise table.error(
                (),
                f"{_name(table)}: nothing says how long the provider keeps a key",
                'name it (provider = "…"), or state key_retention',
            )
        known_names = self._catalogue.provider_names()
        raise table.error(
            (PROVIDER,),
            f"no provider {name!r}",
            f"{did_you_mean(name, known_names, {})} Or state its key_retention beside",
        )

    def _path(self, *keys: str) -> str:
        return ".".join((*self._prefix, *keys))


def _refuse_unsaid(table: Table, given: Term, published: Term | None, *, shorter: bool) -> None:
    """Refuse a figure on the dangerous side of the published one, unless it names its source."""
    if published is None or published.us is None or given.us is None:
        return
    beyond = given.us < published.us if shorter else given.us > published.us
    if not beyond or says_where_from(table, given.name):
        return
    side = "shorter" if shorter else "longer"
    raise table.error(
        (given.name.value,),
        f"{given.name.value} = {given} is {side} than what is published, {published} "
        f"[{published.provenance}]",
        f'say where that comes from: {{ value = "{given}", source = "…" }}',
    )


def _name(table: Table) -> str:
    return str(table.path[-1])
