-- Returns the operation with this id, and no other that holds its key.
select /* columns */
from operations
where namespace = :namespace and operation_id = :operation_id;
