-- Promises the noted policies of all namespaces, in their order.
select namespace, digest, retention_s, text, noted_ms from replayfloor_policies order by namespace
