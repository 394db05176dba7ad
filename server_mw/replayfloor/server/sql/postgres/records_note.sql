-- Promises: what was done by hand is noted.
insert into replayfloor.audit (by_whom, action, id, detail)
values (%(by)s, %(action)s, %(id)s, %(detail)s)
