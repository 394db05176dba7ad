-- Promises to say whether receipts have partitions, what the present is, and for how long receipts
-- and proofs are kept, if anybody has said so.
select replayfloor.is_partitioned_v1(), replayfloor.now_v1(), retention_ms, audit_ms
from replayfloor.maintenance
