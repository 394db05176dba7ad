-- Promises the noted policy of a namespace, if there is one.
select digest, retention_s, text, noted_ms from replayfloor_policies where namespace = :namespace
