-- Promises: the key is finished if its claim is this fence's, and is kept as long as that says. A
-- second receipt of one key is refused. The claim stands.
insert into replayfloor_receipts (id, fingerprint, finished_ms, took_ms, status, response,
                                  expires_ms)
select id, ?3, ?4, max(0, ?4 - claimed_ms), ?5, ?6, ?4 + retention_ms
from replayfloor_claims
where id = ?1 and fence = ?2
