-- Promises what replayfloor.inbox_bury_v1 promises; one round trip.
select replayfloor.inbox_bury_v1(%(id)s, %(fence)s, %(error)s)
