-- Promises what replayfloor.inbox_renew_v1 promises; one round trip.
select replayfloor.inbox_renew_v1(%(id)s, %(fence)s, %(lease_ms)s)
