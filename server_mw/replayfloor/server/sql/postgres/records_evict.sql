-- Promises: the receipt of an id is gone, and it is noted who removed it, in one commit.
with gone as (
    delete from replayfloor.receipts where id = %(id)s returning id, finished_at, status
)
insert into replayfloor.audit (by_whom, action, id, detail)
select %(by)s, 'evict', id,
       concat_ws('; ', 'status ' || status, 'finished ' || finished_at, nullif(%(detail)s, ''))
from gone
returning id
