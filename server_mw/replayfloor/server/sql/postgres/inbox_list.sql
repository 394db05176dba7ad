-- Promises: what is in the inbox, in the order of arrival: all of it, of one source, or the dead.
select id, namespace, source, endpoint, event_id, subject, subject_id is not null,
       case when state = 'dead' then 'dead'
            when lease_until > clock_timestamp() then 'running'
            else 'waiting' end,
       attempts, received_at, clock_timestamp() - received_at, due_at, last_at, last_error,
       octet_length(request)
from replayfloor.inbox
where (%(source)s::text is null or source = %(source)s::text)
  and (state = 'dead' or not %(dead)s)
order by seq
limit %(limit)s
