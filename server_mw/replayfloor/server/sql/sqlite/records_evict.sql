-- Promises: the receipt of an id is gone; tells what it said.
delete from replayfloor_receipts where id = :id returning status, finished_ms
