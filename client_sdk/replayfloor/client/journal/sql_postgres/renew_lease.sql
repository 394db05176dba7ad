-- Lets the caller's lease begin anew, by this server's clock; anybody else's, and none, stays.
-- Returns the row. If a crash of the server undoes it, somebody else may send the same key earlier.
update replayfloor_client.operations
set lease_until_ns = case when lease_owner <> '' and lease_owner = %(lease_owner)s
                          then replayfloor_client.clock_ns_v1() + %(lease_ns)s
                          else lease_until_ns end
where namespace = %(namespace)s and operation_id = %(operation_id)s
returning /* columns */;
