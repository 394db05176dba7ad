-- Promises: the event of an id, or (null) the dead ones of a source, are due at once, with all of
-- their attempts before them, and it is noted who wanted it, in one commit. One in work is left
-- alone.
with again as (
    update replayfloor.inbox
    set state = 'waiting', attempts = 0, due_at = clock_timestamp()
    where fence is null
      and case when %(id)s::uuid is null then state = 'dead' and source = %(source)s
               else id = %(id)s::uuid end
    returning id, namespace, source, event_id, last_error
), noted as (
    insert into replayfloor.audit (by_whom, action, id, detail)
    select %(by)s, 'inbox retry', id,
           concat_ws('; ', source, event_id, nullif(last_error, ''), nullif(%(detail)s, ''))
    from again
)
select id, replayfloor.inbox_wake_v1(namespace) from again
