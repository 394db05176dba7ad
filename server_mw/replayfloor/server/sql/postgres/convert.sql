-- Promises what replayfloor.convert_v1 promises. Outside of a transaction: it commits.
call replayfloor.convert_v1(
    p_width_ms => %(width_ms)s::bigint, p_ahead_ms => %(ahead_ms)s::bigint)
