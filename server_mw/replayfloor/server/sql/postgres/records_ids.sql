-- Promises: the ids within a range that have a claim or a receipt, each once, at most so many.
(select id from replayfloor.claims where id between %(lowest)s and %(highest)s limit %(limit)s)
union
(select id from replayfloor.receipts where id between %(lowest)s and %(highest)s limit %(limit)s)
order by id
limit %(limit)s
