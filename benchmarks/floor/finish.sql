-- Promises: each claim that still has its fence has become a receipt; returns how many had.
with gone as (
    delete from claims as c
    using unnest(%b::bytea[], %b::bytea[], %b::bytea[], %b::integer[], %b::bytea[])
        as a (id, fingerprint, fence, status, response)
    where c.id = a.id and c.fence = a.fence
    returning a.id, a.fingerprint, a.status, a.response
), stored as (
    insert into receipts (id, fingerprint, finished_at, status, response)
    select g.id, g.fingerprint, now(), g.status, g.response from gone as g
)
select count(*) from gone
