-- Promises to show the claim that stands, if one does.
select fingerprint, fence, lease_ms - :now_ms from replayfloor_claims where id = :id
