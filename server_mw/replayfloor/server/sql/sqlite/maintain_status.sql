-- Promises how many receipts and proofs there are, and when the oldest of each is from.
select 'receipts', count(*), min(finished_ms) from replayfloor_receipts
union all
select 'proofs', count(*), min(used_ms) from replayfloor_proofs
