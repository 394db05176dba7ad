-- Moves the end of the caller's lease; anybody else's, and none, stays. Returns the row.
update operations
set lease_until_ns =
        case lease_owner when x'' then lease_until_ns
                         when :lease_owner then :at_ns + :lease_ns
                         else lease_until_ns end
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
