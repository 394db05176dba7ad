-- Promises to show whether a proof says that the key was used.
select 1 from replayfloor_proofs where id = :id
