-- Promises: the claim of an id, if it stands, and whether it is an orphan at this moment.
select id, fingerprint, claimed_ms, lease_ms, lease_ms <= :now_ms
from replayfloor_claims
where id = :id
