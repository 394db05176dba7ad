-- Promises what replayfloor.finish_v2 promises; one round trip.
-- `cast`, not two colons: some libraries take a colon for the beginning of a parameter.
select replayfloor.finish_v2(
    %(id)s, %(fence)s, %(fingerprint)s, cast(%(status)s as smallint), %(response)s)
