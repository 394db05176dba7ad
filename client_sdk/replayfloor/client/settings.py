"""The options of a transport, by name and type, and the shell that comes of them."""

from __future__ import annotations

import random as random_numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypedDict, Unpack, cast

from replayfloor.client.budget import RetryBudget
from replayfloor.client.call import Settings
from replayfloor.client.clock import Clock, looking_at, system_clock
from replayfloor.client.events import Event
from replayfloor.client.journal import Journal, open_journal
from replayfloor.client.library import Library
from replayfloor.client.policy import DEFAULT_POLICY, RetryPolicy
from replayfloor.client.profiles import Profile
from replayfloor.client.progress import Terms
from replayfloor.client.shell import Shell
from replayfloor.client.support import UNPROFILED, learning_of
from replayfloor.client.support_memory import SupportMemory
from replayfloor.client.upkeep import FINISHED_KEPT_S, Upkeep
from replayfloor.core.errors import ConfigurationError
from replayfloor.retention import OutboundPolicy

Profiles: TypeAlias = Profile | Sequence[Profile] | None


class TransportOptions(TypedDict, total=False):
    """Options of every transport; all may be left out.

    retry: how long one call goes on.
    on_event: is called with every `replayfloor.client.events.Event`; what it raises is logged. The
        sinks of `replayfloor.client.telemetry` can be given here.
    budget: how many retries may fail at one origin before further ones are refused; may be shared
        by transports. Default: one of its own.
    keep_responses: keep answers of up to 64 KiB in the journal, so that a later call of the same
        operation gets its answer without sending anything. Default: False.
    keep_finished_s: seconds for which the journal keeps the finished operations of the transport's
        namespaces, and at least as long as their keys may be sent; None to keep them for good.
        Default: 35 days.
    clock: both clocks of the machine; or the wall clock alone, ns since 1970 (UTC).
    random: a uniform random number within [0, 1).
    """

    retry: RetryPolicy
    on_event: Callable[[Event], None] | None
    budget: RetryBudget | None
    keep_responses: bool
    keep_finished_s: float | None
    policy: OutboundPolicy | None
    clock: Clock
    random: Callable[[], float]


def open_shell(
    library: Library,
    profile: Profiles,
    journal: Journal | str,
    **options: Unpack[TransportOptions],
) -> Shell:
    """Return the shell of a transport; the journal may be the URL of one.

    Without a profile the server has to show that it knows keys. Raises ConfigurationError.
    """
    if unknown := sorted(options.keys() - TransportOptions.__annotations__.keys()):
        raise TypeError(f"no such option: {', '.join(unknown)}")
    profiles: Sequence[Profile | None]
    profiles = (profile,) if profile is None or isinstance(profile, Profile) else profile
    if not profiles:
        raise ConfigurationError("no profile: no request would be protected; None if none is known")
    _require_plan(profiles, options)
    budget = options.get("budget")
    shared = Settings(
        library=library,
        terms=_terms(profiles[0], options),
        journal=open_journal(journal) if isinstance(journal, str) else journal,
        on_event=options.get("on_event"),
        look=looking_at(options.get("clock", system_clock)),
        random=options.get("random", random_numbers.random),
        budget=RetryBudget() if budget is None else budget,
        support=SupportMemory(),
    )
    each_settings = tuple(replace(shared, terms=_terms(each, options)) for each in profiles)
    kept_s = options.get("keep_finished_s", FINISHED_KEPT_S)
    names = tuple(dict.fromkeys(each.profile.namespace for each in each_settings))
    upkeep = None if kept_s is None else Upkeep(kept_s, namespaces=names)
    return Shell(each_settings, upkeep, owns_journal=isinstance(journal, str))


def _require_plan(profiles: Sequence[Profile | None], options: TransportOptions) -> None:
    policy = cast("object", options.get("policy"))
    if policy is None:
        return
    if not isinstance(policy, OutboundPolicy):
        raise ConfigurationError(
            f"policy: a transport takes an OutboundPolicy, which says how long our client may "
            f"repeat, and not {policy!r}"
        )
    budget_s = options.get("retry", DEFAULT_POLICY).budget_s
    for profile in profiles:
        if profile is None:
            raise ConfigurationError("policy: without a profile no key is known to be kept")
        policy.require_plan(send_window_s=profile.send_window_s, retry_budget_s=budget_s)


def _terms(profile: Profile | None, options: TransportOptions) -> Terms:
    return Terms(
        profile=UNPROFILED if profile is None else profile,
        policy=options.get("retry", DEFAULT_POLICY),
        learning=learning_of(profile),
        keeps_responses=options.get("keep_responses", False),
        listens=options.get("on_event") is not None,
    )
