-- Promises: the claim's lease begins anew, if it is still the fence's.
update replayfloor_claims set lease_ms = :now_ms + :lease_ms where id = :id and fence = :fence
