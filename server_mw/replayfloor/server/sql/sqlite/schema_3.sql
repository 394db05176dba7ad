-- Promises: a file of version 2 has version 3, where what has expired is found without reading all.
alter table replayfloor_claims add column retention_ms integer;
alter table replayfloor_receipts add column expires_ms integer;
create index replayfloor_receipts_expires on replayfloor_receipts (expires_ms);
create index replayfloor_receipts_finished on replayfloor_receipts (finished_ms);
create index replayfloor_proofs_used on replayfloor_proofs (used_ms);

update replayfloor_schema set version = 3
