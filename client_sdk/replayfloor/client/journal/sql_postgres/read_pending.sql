-- Returns what is open or finally unknown, the oldest first attempt first.
select /* columns */
from replayfloor_client.operations
where state in ('open', 'unknown_final')
  and (cast(%(namespace)s as text) is null or namespace = %(namespace)s)
order by first_attempt_at_ns
limit %(limit)s;
