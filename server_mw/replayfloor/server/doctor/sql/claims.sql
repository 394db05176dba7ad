-- Promises how many claims there are, how many are orphans, and since when the oldest is one.
select count(*), count(*) filter (where lease_until <= clock_timestamp()),
       extract(epoch from clock_timestamp() - min(lease_until))::double precision
from replayfloor.claims
