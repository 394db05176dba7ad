-- Promises what replayfloor.claim_v2 promises; one round trip.
select state, fingerprint, age_ms, response
from replayfloor.claim_v2(%(id)s, %(fingerprint)s, %(fence)s, %(lease_ms)s, %(takeover)s)
