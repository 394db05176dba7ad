-- Promises what replayfloor.claim_v3 promises; one round trip.
select state, fingerprint, age_ms, response, reused
from replayfloor.claim_v3(
    %(id)s, %(fingerprint)s, %(fence)s, %(lease_ms)s, %(takeover)s,
    %(retention_ms)s, %(reuse)s, %(proofs)s)
