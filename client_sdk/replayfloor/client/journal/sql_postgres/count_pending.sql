-- Counts what is open or finally unknown, with the oldest first attempt of each group.
select provider, namespace, state, count(*) as count,
       min(first_attempt_at_ns) as oldest_first_attempt_at_ns
from replayfloor_client.operations
where state in ('open', 'unknown_final')
group by namespace, provider, state
order by namespace, provider, state collate "C";
