-- Promises what replayfloor.finish_v1 promises; one round trip.
select replayfloor.finish_v1(
    %(id)s, %(fence)s, %(fingerprint)s, %(status)s::smallint, %(response)s)
