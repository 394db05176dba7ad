-- Promises to show the receipt of a finished key, if it is finished.
select fingerprint, response from replayfloor_receipts where id = :id
