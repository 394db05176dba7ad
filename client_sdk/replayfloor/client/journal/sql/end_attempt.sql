-- Records what one attempt has taught: the worst outcome never decreases, done is never undone.
update operations
set attempts_ended = attempts_ended + 1,
    last_seen_at_ns = max(last_seen_at_ns, :at_ns),
    worst = max(worst, :outcome),
    state = case when :done then 'done' else state end,
    final_status = case when :done then :final_status else final_status end,
    last_evidence = :evidence
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
