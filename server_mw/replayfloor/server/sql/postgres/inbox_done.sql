-- Promises what replayfloor.inbox_done_v1 promises; one round trip.
select replayfloor.inbox_done_v1(%(id)s, %(fence)s)
