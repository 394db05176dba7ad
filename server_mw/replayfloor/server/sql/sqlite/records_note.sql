-- Promises: what was done by hand is noted.
insert into replayfloor_audit (noted_ms, by_whom, action, id, detail)
values (:now_ms, :by, :action, :id, :detail)
