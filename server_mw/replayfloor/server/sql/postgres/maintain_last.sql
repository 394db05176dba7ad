-- Promises the last run of the maintenance, or no row.
select outcome, ran_at, took_ms, made, dropped, removed, proofs, by_whom, detail, succeeded_at
from replayfloor.maintenance
where ran_at is not null
