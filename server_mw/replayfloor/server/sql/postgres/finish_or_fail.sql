-- Promises what replayfloor.finish_or_fail_v1 promises; the COMMIT goes along in one round trip.
select replayfloor.finish_or_fail_v1(
    %(id)s, %(fence)s, %(fingerprint)s, cast(%(status)s as smallint), %(response)s)
