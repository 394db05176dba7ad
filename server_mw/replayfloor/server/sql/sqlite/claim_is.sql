-- Promises one row if the claim is this fence's.
select 1 from replayfloor_claims where id = ?1 and fence = ?2
