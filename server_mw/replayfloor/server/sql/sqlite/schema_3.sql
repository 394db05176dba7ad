-- Promises: a file of version 2 has version 3, where what has expired is found without reading all.
create index replayfloor_receipts_finished on replayfloor_receipts (finished_ms);
create index replayfloor_proofs_used on replayfloor_proofs (used_ms);

update replayfloor_schema set version = 3
