"""The profile that `resume` sends an operation with: from the entry, and what the user adds.

A key that is written in another way than the first time is another key to the provider, and the
request is executed again. So what the journal does not tell is asked for, and not presumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from replayfloor.client.catalogue import catalogue, profile
from replayfloor.client.cli_common import load_object
from replayfloor.client.profiles import Profile
from replayfloor.client.support import UNPROFILED
from replayfloor.core.errors import UsageError
from replayfloor.core.journal import JournalEntry
from replayfloor.core.journal_rules import NS_PER_S

HEADER: Final = "Idempotency-Key"

_REPLACED_S: Final = 1.0
"""Any retention makes a profile of the catalogue; that of the entry takes its place."""


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """What the command line says about the profile; None for what it does not say."""

    name: str | None
    account: str | None
    mode: str | None
    header_name: str | None
    quoted: bool | None

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        said = (self.name, self.account, self.mode, self.header_name, self.quoted)
        return any(each is not None for each in said)

    def namespace(self, given: str | None) -> str | None:
        """Return the namespace that was said: by itself, or by account and mode."""
        if self.account is None and self.mode is None:
            return given
        if self.name is None or ":" in self.name:
            raise UsageError("--account and --mode belong to a profile of the catalogue: --profile")
        made = profile(
            self.name,
            account=self.account or "",
            mode=self.mode or "live",
            retention_s=_REPLACED_S,
        ).namespace
        if given not in (None, made):
            raise UsageError(f"--namespace {given} and {made}, which is what the profile has")
        return made

    def profile(self, entry: JournalEntry) -> Profile | None:
        """Return the profile to send an entry with; None if it was begun without one.

        Retention and deadline are the entry's, also if the provider has changed them since.
        Raises UsageError.
        """
        base = self._base(entry)
        if entry.retention_s <= 0:
            return None
        window_s = (entry.send_deadline_ns - entry.first_attempt_at_ns) / NS_PER_S
        return replace(
            base,
            retention_s=entry.retention_s,
            # If an answer shortens the retention, the deadline keeps the distance it had.
            margin_s=min(
                max(0.0, entry.retention_s - window_s), math.nextafter(entry.retention_s, 0.0)
            ),
            namespace=entry.namespace,
            # The entry stands: it was sent with a key, to this address. Nothing may pass without.
            methods=(entry.method,),
            hosts=(),
            paths=(),
        )

    def _base(self, entry: JournalEntry) -> Profile:
        if self.name is not None and ":" in self.name:
            return self._own(self.name, entry)
        name = self.name or entry.provider
        if name == UNPROFILED.name:
            return UNPROFILED
        if name in catalogue() and (self.name is not None or _is_catalogued(entry)):
            self._leave_form_out(f"the catalogue knows how {name} takes keys")
            return profile(name, retention_s=_REPLACED_S)
        if self.name is not None:
            raise UsageError(f"no profile {name!r} in the catalogue: {', '.join(catalogue())}")
        if self.quoted is None:
            raise UsageError(
                f"the journal does not tell how the application sends its keys to {name!r}, and it "
                "is not a profile of the catalogue. Name it (--profile module:attribute); or "
                f'say --quoted ({HEADER}: "…", what a Profile does by default) or --unquoted, and '
                "--header-name if it is another. A key in another form would be another key, and "
                "the operation would be executed again"
            )
        return Profile(
            name=name or entry.namespace,
            retention_s=_REPLACED_S,
            header=self.header_name or HEADER,
            quoted=self.quoted,
        )

    def _own(self, name: str, entry: JournalEntry) -> Profile:
        self._leave_form_out(f"{name} says how keys are written")
        found = load_object(name)
        if not isinstance(found, Profile):
            raise UsageError(f"{name} is no replayfloor.client.Profile")
        if found.namespace != entry.namespace:
            raise UsageError(
                f"{name} has the namespace {found.namespace!r}, and the operation is in "
                f"{entry.namespace!r}"
            )
        return found

    def _leave_form_out(self, reason: str) -> None:
        if self.header_name is not None or self.quoted is not None:
            raise UsageError(f"{reason}: leave out --header-name and --quoted")


def _is_catalogued(entry: JournalEntry) -> bool:
    """Whether the entry was begun with the catalogue's profile of its provider's name.

    An application may call its own profile by a name that the catalogue has; what the catalogue
    makes has `name/account/mode` as its namespace.
    """
    name, *rest = entry.namespace.split("/")
    return name == entry.provider and len(rest) == 2
