-- Promises: the claim of an id, if it stands, and whether it is an orphan at this moment.
select id, fingerprint, claimed_at, lease_until, lease_until <= clock_timestamp()
from replayfloor.claims
where id = %(id)s
