-- Returns operations of every state in the order of their places, from behind one place on. The
-- primary key has that order, byte by byte, which in UTF-8 is the order of the code points.
select /* columns */
from operations
where (:namespace is null or namespace = :namespace)
  and (:after_namespace is null
       or (namespace, operation_id) > (:after_namespace, :after_operation_id))
order by namespace, operation_id
limit :limit;
