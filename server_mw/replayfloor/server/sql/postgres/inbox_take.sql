-- Promises what replayfloor.inbox_take_v1 promises; one round trip.
select * from replayfloor.inbox_take_v1(%(namespace)s, %(fence)s, %(lease_ms)s, %(again)s)
