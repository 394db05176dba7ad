-- Promises how many claims there are, how many are orphans, and when the oldest lease ended.
select count(*), coalesce(sum(lease_ms <= :now_ms), 0), min(lease_ms) from replayfloor_claims
