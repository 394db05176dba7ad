-- Promises: an id without a receipt has a claim; one row for each receipt that was found, and one
-- with the number of claims that were made.
with asked as (
    select a.id, a.fingerprint, a.fence
    from unnest(%b::bytea[], %b::bytea[], %b::bytea[]) as a (id, fingerprint, fence)
), found as materialized (
    select r.id, r.fingerprint, r.status, r.response
    from asked as a join receipts as r on r.id = a.id
), taken as (
    insert into claims (id, fingerprint, fence, claimed_at, lease_until)
    select a.id, a.fingerprint, a.fence, now(), now() + interval '30 s'
    from asked as a where not exists (select from found as f where f.id = a.id)
    on conflict do nothing returning id
)
select id, fingerprint, status, response from found
union all select null, null, count(*)::integer, null from taken
