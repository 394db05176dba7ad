-- Inserts the operation unless its id or its key is taken; returns the row if it was inserted.
insert into operations (/* columns */)
values (:namespace, :operation_id, :key, :method, :origin, :path, :fingerprint,
        :first_attempt_at_ns, :retention_s, :send_deadline_ns, :attempts, :attempts_ended,
        :last_attempt_at_ns, :last_seen_at_ns, :worst, :state, :final_status, :last_evidence)
on conflict do nothing
returning /* columns */;
