-- Promises: what was done by hand, to one key or (null) to any, latest first.
select noted_at, by_whom, database_user, action, id, detail
from replayfloor.audit
where %(id)s::uuid is null or id = %(id)s::uuid
order by noted_at desc
limit %(limit)s
