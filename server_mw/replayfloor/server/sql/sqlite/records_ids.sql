-- Promises: the ids within a range that have a claim or a receipt, each once, at most so many.
select id from replayfloor_claims where id between :lowest and :highest
union
select id from replayfloor_receipts where id between :lowest and :highest
order by id
limit :limit
