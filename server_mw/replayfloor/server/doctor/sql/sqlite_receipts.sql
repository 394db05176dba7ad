-- Promises how many receipts there are, how many finished before a moment, and when the first did.
select count(*), coalesce(sum(finished_ms <= :before_ms), 0), min(finished_ms)
from replayfloor_receipts
