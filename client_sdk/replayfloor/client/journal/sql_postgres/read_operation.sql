-- Returns the operation with this id, and no other that holds its key.
select /* columns */
from replayfloor_client.operations
where namespace = %(namespace)s and operation_id = %(operation_id)s;
