-- Promises: the claims whose lease ran out long enough ago, longest first. A claim that was given
-- back has a new end of its lease, so that it comes after those that nobody has looked at yet.
select id, fingerprint, claimed_ms, lease_ms, 1
from replayfloor_claims
where lease_ms <= :now_ms - :older_than_ms
order by lease_ms, id
limit :limit
