-- Promises: the claims that stand, oldest first, and which of them are orphans at this moment.
select id, fingerprint, claimed_ms, lease_ms, lease_ms <= :now_ms
from replayfloor_claims
order by claimed_ms, id
limit :limit
