"""Profiles of known providers: data with its sources (the .toml files), and how to get one.

    IdempotentTransport(profile=profile("stripe-v1", account="acct_1", mode="test"), …)

Retentions, and the places where they were read, are those of `replayfloor.retention`; here is what
the wire asks for. Where no source states a retention, the caller has to bring one.
Documentation changes: look at the sources of a figure before you rely on it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Final

from replayfloor.client.catalogue.entries import Entry, read_entries
from replayfloor.client.profile_facts import Fact, Source
from replayfloor.client.profiles import Profile
from replayfloor.core.errors import ConfigurationError

__all__ = ["catalogue", "profile"]

_SUFFIX: Final = ".toml"
_PART: Final = re.compile(r"[^/\s\x00-\x1f\x7f]*")
_GIVEN: Final = Source("the caller", "unknown", "set with retention_s")


def catalogue() -> tuple[str, ...]:
    """Return the names of the profiles, sorted."""
    return tuple(sorted(_entries()))


def profile(
    name: str,
    *,
    account: str = "",
    mode: str = "live",
    retention_s: float | None = None,
    margin_s: float | None = None,
) -> Profile:
    """Return the profile of a known provider.

    Args:
        name: one of `catalogue()`.
        account: the account, tenant or company that the requests act for. Providers keep keys by
            account, so that two accounts in one journal need two names.
        mode: "live", "test", or what else the provider keeps apart.
        retention_s: seconds for which the provider remembers a key. Needed where no source states
            it; elsewhere it may only be shorter than the catalogue's, unless the provider grants
            more by agreement.
        margin_s: see `Profile`.

    The namespace in the journal is `name/account/mode`. Raises ConfigurationError.
    """
    entry = _entries().get(name)
    if entry is None:
        raise ConfigurationError(f"no profile {name!r}; there are: {', '.join(catalogue())}")
    for part in (account, mode):
        if not _PART.fullmatch(part):
            raise ConfigurationError(f"{part!r} in a namespace: no slash and no blank is allowed")
    if not mode:
        raise ConfigurationError('mode is empty; it is "live", "test" or another name')
    return replace(
        entry.base,
        retention_s=_retention_s(name, entry, retention_s),
        namespace=f"{name}/{account}/{mode}",
        margin_s=margin_s,
        facts=tuple(_given(fact, retention_s) for fact in entry.base.facts),
    )


def _retention_s(name: str, entry: Entry, given_s: float | None) -> float:
    """Return the retention to go by; refuse to guess one, or to go beyond what is known."""
    fact = entry.base.fact("retention")
    if entry.retention_s is None:
        if given_s is None:
            raise ConfigurationError(
                f"{name}: how long a key is remembered is not known, because {entry.reason}. "
                f"Pass retention_s, a number that you have from {entry.title} or are ready to "
                f"answer for. [{fact}]"
            )
        return given_s
    longest_s = max(entry.retention_s, entry.agreed_max_s or 0.0)
    if given_s is not None and given_s > longest_s:
        raise ConfigurationError(
            f"{name}: retention_s={given_s:g} is longer than what {entry.title} keeps a key for, "
            f"{longest_s:g} s: a retry past that is executed a second time. [{fact}]"
        )
    return entry.retention_s if given_s is None else given_s


def _given(fact: Fact, retention_s: float | None) -> Fact:
    """Return the figure, as the caller has set it if it is the retention."""
    if fact.figure != "retention" or retention_s is None:
        return fact
    catalogued = f"the catalogue says: {fact}"
    return replace(
        fact,
        value=f"{retention_s:g} s",
        confidence="given",
        sources=(_GIVEN, *fact.sources),
        conflict="; ".join(filter(None, (fact.conflict, catalogued))),
    )


@cache
def _entries() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for file in sorted(files(__name__).iterdir(), key=lambda each: each.name):
        if not file.name.endswith(_SUFFIX):
            continue
        for name, entry in read_entries(file.read_text(encoding="utf-8"), file.name).items():
            if name in found:
                raise ConfigurationError(f"{file.name}: {name!r} is in another file already")
            found[name] = entry
    return found
