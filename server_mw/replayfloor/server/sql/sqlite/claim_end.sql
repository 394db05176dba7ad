-- Promises: the claim is gone if it was this fence's, and says when it was made and for how long
-- its receipt is to be kept.
delete from replayfloor_claims where id = :id and fence = :fence
returning claimed_ms, retention_ms
