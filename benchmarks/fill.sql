-- Promises: receipts number %(first)s to %(last)s are in the partition that begins at %(start)s,
-- evenly spread over it, or over what has passed of it. The id is the MD5 of the number: whoever
-- knows the number can ask for the key.
insert into replayfloor.receipts (id, fingerprint, finished_at, took_ms, status, response)
select made.id, made.id, made.finished_at, 12, 201, %(response)s
from (
    select md5(n::text)::uuid as id,
           %(start)s::timestamptz
               + (n - %(first)s::bigint) / (%(last)s::bigint - %(first)s::bigint + 1)::float8
               * (least(%(start)s::timestamptz + %(width)s::interval, now())
                  - %(start)s::timestamptz) as finished_at
    from generate_series(%(first)s::bigint, %(last)s::bigint) as n
) as made
