-- Puts a sighting together with what is known of its operation, in any order, any number of times.
-- Every column takes the greater value, the first attempt too: each source has a lower bound of it.
-- Only the retention and the send deadline take the smaller one: whoever stops at it is safe.
insert into sightings values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (namespace, operation_id) do update set
    provider            = max(provider, excluded.provider),
    seen_at_ns          = max(seen_at_ns, excluded.seen_at_ns),
    first_attempt_at_ns = max(first_attempt_at_ns, excluded.first_attempt_at_ns),
    sent_ns             = max(sent_ns, excluded.sent_ns),
    elapsed_ns          = max(elapsed_ns, excluded.elapsed_ns),
    attempts            = max(attempts, excluded.attempts),
    outcome             = max(outcome, excluded.outcome),
    word                = max(word, excluded.word),
    begun_at_ns         = max(begun_at_ns, excluded.begun_at_ns),
    rested_at_ns        = max(rested_at_ns, excluded.rested_at_ns),
    retention_s         = coalesce(
        min(retention_s, excluded.retention_s), retention_s, excluded.retention_s
    ),
    send_deadline_ns    = coalesce(
        min(send_deadline_ns, excluded.send_deadline_ns),
        send_deadline_ns,
        excluded.send_deadline_ns
    )
