-- Promises: what was done by hand, to one key or (null) to any, latest first.
select noted_ms, by_whom, action, id, detail
from replayfloor_audit
where :id is null or id = :id
order by noted_ms desc, rowid desc
limit :limit
