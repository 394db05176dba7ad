-- Promises what replayfloor.finish_batch_v1 promises; one round trip, one commit.
select replayfloor.finish_batch_v1(
    cast(%(ids)s as uuid[]), cast(%(fences)s as uuid[]), cast(%(fingerprints)s as uuid[]),
    cast(%(statuses)s as smallint[]), cast(%(responses)s as bytea[]))::text
