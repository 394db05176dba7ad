-- Promises: the claims whose lease ran out long enough ago, longest first. A claim that was given
-- back has a new end of its lease, so that it comes after those that nobody has looked at yet.
select id, fingerprint, claimed_at, lease_until, true
from replayfloor.claims
where lease_until <= clock_timestamp() - %(older_than)s
order by lease_until, id
limit %(limit)s
