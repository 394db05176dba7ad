"""How long a key lives: derived from what the other side publishes, in one place. Pure.

    policy = InboundPolicy("hooks", senders=(Sender("shop", automatic_retry="72h"),),
                           planned_outage="12h")
    policy.retention_s      302400.0, which is 84 h
    policy.floor.driver     the figure that decided it, and whose it is

`load_policy` reads it from replayfloor.toml, and is the only one that opens a file. How long our
receipts live (inbound) and how long our client may retry (outbound) are two types; they never mix.
"""

from replayfloor.retention.coverage import Coverage, coverage
from replayfloor.retention.derivation import Derivation, Horizon
from replayfloor.retention.durations import format_duration, parse_duration
from replayfloor.retention.errors import (
    HorizonUnknown,
    PlanTooLong,
    PolicyError,
    RetentionTooShort,
)
from replayfloor.retention.files import (
    load_inbound,
    load_outbound,
    load_policies,
    load_policy,
)
from replayfloor.retention.inbound import InboundPolicy, assert_covers
from replayfloor.retention.outbound import OutboundPolicy
from replayfloor.retention.parties import Provider, Sender
from replayfloor.retention.policies import Policies, Policy
from replayfloor.retention.terms import (
    UNKNOWN,
    Confidence,
    Length,
    Provenance,
    Term,
    TermKind,
)
from replayfloor.retention.toml_policies import parse_policies

__all__ = [
    "UNKNOWN",
    "Confidence",
    "Coverage",
    "Derivation",
    "Horizon",
    "HorizonUnknown",
    "InboundPolicy",
    "Length",
    "OutboundPolicy",
    "PlanTooLong",
    "Policies",
    "Policy",
    "PolicyError",
    "Provenance",
    "Provider",
    "RetentionTooShort",
    "Sender",
    "Term",
    "TermKind",
    "assert_covers",
    "coverage",
    "format_duration",
    "load_inbound",
    "load_outbound",
    "load_policies",
    "load_policy",
    "parse_duration",
    "parse_policies",
]
