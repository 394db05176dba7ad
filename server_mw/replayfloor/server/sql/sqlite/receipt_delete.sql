-- Promises: the key has no receipt any more.
delete from replayfloor_receipts where id = :id
