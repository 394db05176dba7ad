-- Promises: the claims that stand, oldest first, and which of them are orphans at this moment.
select id, fingerprint, claimed_at, lease_until, lease_until <= clock_timestamp()
from replayfloor.claims
order by claimed_at, id
limit %(limit)s
