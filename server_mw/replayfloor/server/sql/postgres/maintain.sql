-- Promises what replayfloor.maintain_v1 promises. Outside of a transaction: it commits.
call replayfloor.maintain_v1(
    p_retention_ms => %(retention_ms)s::bigint, p_width_ms => %(width_ms)s::bigint,
    p_ahead_ms => %(ahead_ms)s::bigint, p_audit_ms => %(audit_ms)s::bigint,
    p_by => %(by)s::text, p_every_ms => %(every_ms)s::bigint,
    p_accept_shorter => %(accept_shorter)s::boolean)
