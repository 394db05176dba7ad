-- Returns operations of every state in the order of their places, from behind one place on; the
-- primary key has that order.
select /* columns */
from replayfloor_client.operations
where (cast(%(namespace)s as text) is null or namespace = %(namespace)s)
  and (cast(%(after_namespace)s as text) is null
       or (namespace, operation_id) > (%(after_namespace)s, %(after_operation_id)s))
order by namespace, operation_id
limit %(limit)s;
