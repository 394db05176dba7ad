-- Promises what replayfloor.inbox_put_v1 promises; in the transaction that is open.
select replayfloor.inbox_put_v1(
    %(id)s, %(namespace)s, %(source)s, %(endpoint)s, %(event_id)s, %(subject)s,
    cast(%(subject_id)s as uuid), cast(%(occurred_ms)s as bigint), %(past_horizon)s,
    %(request)s, %(sealed)s)
