-- Promises the noted policies of all namespaces, in their order.
select namespace, digest, retention_s, text, noted_at from replayfloor.policies order by namespace
