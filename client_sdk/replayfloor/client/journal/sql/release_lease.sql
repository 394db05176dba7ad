-- Ends the caller's lease; anybody else's stays. Returns the row.
update operations
set lease_owner = case lease_owner when :lease_owner then x'' else lease_owner end,
    lease_until_ns = case lease_owner when :lease_owner then 0 else lease_until_ns end
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
