-- Returns the operation with this id, or else the one that holds this key.
select /* columns */
from operations
where namespace = :namespace and (operation_id = :operation_id or key = :key)
order by operation_id = :operation_id desc
limit 1;
