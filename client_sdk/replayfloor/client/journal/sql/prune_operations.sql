-- Removes what is finished, was last seen before the moment and cannot be replayed any more, the
-- oldest first; what is open or finally unknown never. Returns one row for each that was removed.
delete from operations
where rowid in (
    select rowid
    from operations
    where state in ('done', 'settled')
      and last_seen_at_ns < :finished_before_ns
      and send_deadline_ns < :finished_before_ns
      and (:namespace is null or namespace = :namespace)
    order by last_seen_at_ns
    limit :limit)
returning operation_id;
