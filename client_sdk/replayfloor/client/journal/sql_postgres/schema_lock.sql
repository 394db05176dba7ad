-- Waits until nobody else makes the schema, and keeps others from it until the transaction ends.
select pg_advisory_xact_lock(%(lock)s);
