-- Promises to say what replayfloor.maintain_v1 would do, and changes nothing.
select action, partition_of, starts_at, ends_at
from replayfloor.plan_v1(
    %(retention_ms)s::bigint, %(width_ms)s::bigint, %(ahead_ms)s::bigint, %(audit_ms)s::bigint)
