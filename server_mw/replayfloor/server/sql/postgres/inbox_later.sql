-- Promises what replayfloor.inbox_later_v1 promises; one round trip.
select replayfloor.inbox_later_v1(
    %(id)s, %(fence)s, %(after_ms)s, %(error)s, %(counts)s)
