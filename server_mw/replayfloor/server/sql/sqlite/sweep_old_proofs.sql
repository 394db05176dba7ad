-- Promises: up to so many proofs of what was used by a moment are gone.
delete from replayfloor_proofs
where id in (
    select id from replayfloor_proofs where used_ms <= :before_ms order by used_ms limit :limit)
