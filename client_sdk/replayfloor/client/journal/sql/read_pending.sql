-- Returns what is open or finally unknown, the oldest first attempt first.
select /* columns */
from operations
where state in ('open', 'unknown_final') and (:namespace is null or namespace = :namespace)
order by first_attempt_at_ns
limit :limit;
