"""What is refused, where it was written, and what to write instead.

ConfigurationError
└── PolicyError               a policy, or a duration in it, cannot be taken as written
    ├── HorizonUnknown        no floor can be derived before somebody chooses a figure
    ├── RetentionTooShort     receipts would be gone before the last legitimate retry
    └── PlanTooLong           a planned retry would come after the provider forgot the key
"""

from __future__ import annotations

from replayfloor.core.errors import ConfigurationError


class PolicyError(ConfigurationError):
    """A policy, or a duration in it, cannot be taken as written.

    `message` says what is wrong and `advice` what to write instead; `file` and `line` (from 1) say
    where it stands, as far as that is known.
    """

    def __init__(
        self, message: str, *, advice: str = "", file: str = "", line: int | None = None
    ) -> None:
        """Take the parts; the text of the error is made of them."""
        self.message, self.advice, self.file, self.line = message, advice, file, line
        place = file if line is None else f"{file}:{line}"
        text = f"{message}; {advice}" if advice else message
        super().__init__(f"{place}: {text}" if place else text)

    def at(self, file: str, line: int | None) -> PolicyError:
        """Return the same error, which now says where; one that says so already stays."""
        if self.file:
            return self
        return type(self)(self.message, advice=self.advice, file=file, line=line)

    def about(self, subject: str) -> PolicyError:
        """Return the same error, which now says of what it speaks."""
        message = f"{subject}: {self.message}"
        return type(self)(message, advice=self.advice, file=self.file, line=self.line)


class HorizonUnknown(PolicyError):
    """No source states a horizon, so there is no floor until the user chooses a figure."""


class RetentionTooShort(PolicyError):
    """Receipts would be gone while a legitimate retry can still arrive."""


class PlanTooLong(PolicyError):
    """A planned retry would be sent after the provider forgot the key, and be executed again."""
