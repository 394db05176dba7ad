-- Promises: the claim is gone if it was this fence's.
delete from replayfloor_claims where id = ?1 and fence = ?2
