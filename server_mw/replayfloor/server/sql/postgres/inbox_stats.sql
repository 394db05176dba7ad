-- Promises: how many events wait, are in work, and are dead; and for how long the oldest one that
-- is not dead has been waiting to be applied, in seconds (null: there is none).
select count(*) filter (
           where state = 'waiting' and (lease_until is null or lease_until <= clock_timestamp())),
       count(*) filter (where state = 'waiting' and lease_until > clock_timestamp()),
       count(*) filter (where state = 'dead'),
       cast(extract(epoch from clock_timestamp() - min(received_at) filter (
           where state = 'waiting')) as double precision)
from replayfloor.inbox
