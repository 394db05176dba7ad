-- Ends the caller's lease; anybody else's stays. Returns the row. If a crash of the server undoes
-- it, the lease ends by itself.
update replayfloor_client.operations
set lease_owner = case when lease_owner = %(lease_owner)s then '' else lease_owner end,
    lease_until_ns = case when lease_owner = %(lease_owner)s then 0 else lease_until_ns end
where namespace = %(namespace)s and operation_id = %(operation_id)s
returning /* columns */;
