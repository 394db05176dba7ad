-- Inserts the operation unless its id or its key is taken; returns its id if it was inserted.
insert into operations (/* columns */)
values (:namespace, :operation_id, :key, :provider, :method, :origin, :path, :fingerprint,
        :first_attempt_at_ns, :boot_id, :first_boot_ns, :elapsed_ns, :retention_s,
        :send_deadline_ns, :attempts, :attempts_ended, :last_attempt_at_ns, :last_seen_at_ns,
        :worst, :state, :final_status, :last_evidence, :lease_owner, :lease_until_ns, :response,
        :settlement, :note)
on conflict do nothing
returning operation_id;
