-- Promises: a key without claim, receipt and (if ?7) proof that it was used is this fence's. What
-- has one of them is left as it is.
insert into replayfloor_claims (id, fingerprint, fence, claimed_ms, lease_ms, retention_ms)
select ?1, ?2, ?3, ?4, ?5, ?6
where not exists (select 1 from replayfloor_receipts where id = ?1)
    and not (?7 and exists (select 1 from replayfloor_proofs where id = ?1))
on conflict (id) do nothing
