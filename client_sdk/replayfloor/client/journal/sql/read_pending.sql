-- Returns what is not done, the oldest first attempt first.
select /* columns */
from operations
where state <> 'done' and (:namespace is null or namespace = :namespace)
order by first_attempt_at_ns
limit :limit;
