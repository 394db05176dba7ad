-- Promises: the events whose id is within a range, with their requests, at most so many.
select id, namespace, source, endpoint, event_id, subject, subject_id is not null,
       case when state = 'dead' then 'dead'
            when lease_until > clock_timestamp() then 'running'
            else 'waiting' end,
       attempts, received_at, clock_timestamp() - received_at, due_at, last_at, last_error,
       octet_length(request), request, sealed
from replayfloor.inbox
where id between %(lowest)s and %(highest)s
order by id
limit %(limit)s
