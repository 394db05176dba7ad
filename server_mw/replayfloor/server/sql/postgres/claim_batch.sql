-- Promises what replayfloor.claim_batch_v1 promises; one round trip, one commit.
select place, state, uuid_send(fingerprint), age_ms, response
from replayfloor.claim_batch_v1(
    cast(%(ids)s as uuid[]), cast(%(fingerprints)s as uuid[]), cast(%(fences)s as uuid[]),
    cast(%(leases_ms)s as integer[]), cast(%(retentions_ms)s as bigint[]), %(proofs)s)
