-- Promises: the key is finished; a second receipt of one key is refused.
insert into replayfloor_receipts (id, fingerprint, finished_ms, took_ms, status, response,
                                  expires_ms)
values (:id, :fingerprint, :now_ms, :took_ms, :status, :response, :expires_ms)
