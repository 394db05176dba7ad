-- Promises what replayfloor.abandon_v1 promises; one round trip.
select replayfloor.abandon_v1(%(id)s, %(fence)s)
