-- Promises what replayfloor.inbox_drop_v1 promises; one round trip.
select replayfloor.inbox_drop_v1(%(id)s, %(by)s, %(detail)s)
