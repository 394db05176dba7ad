-- Promises to show the receipt of a finished key, if it has one, and when it was finished.
select fingerprint, response, finished_ms from replayfloor_receipts where id = :id
