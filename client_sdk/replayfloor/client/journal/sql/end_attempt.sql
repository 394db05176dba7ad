-- Records what one attempt has taught: the worst outcome never decreases, done is never undone.
-- With done the caller's lease ends; a response and a retention that are null stay as they were.
-- Done is not believed while another attempt may have been executed and no answer is the result.
update operations
set attempts_ended = attempts_ended + 1,
    last_seen_at_ns = max(last_seen_at_ns, :at_ns),
    elapsed_ns = max(elapsed_ns, :elapsed_ns),
    worst = max(worst, :outcome),
    state = case when settles then 'done' else state end,
    final_status = case when settles then :final_status else final_status end,
    last_evidence = :evidence,
    response = case when settles then coalesce(:response, response) else response end,
    retention_s = coalesce(:retention_s, retention_s),
    send_deadline_ns =
        case when :retention_s is null then send_deadline_ns else :send_deadline_ns end,
    lease_owner = case when :done and lease_owner = :lease_owner then x'' else lease_owner end,
    lease_until_ns =
        case when :done and lease_owner = :lease_owner then 0 else lease_until_ns end
from (
    select :done and (after = 4 or (after <= 1 and attempts <= attempts_ended + 1)) as settles
    from (
        select max(worst, :outcome) as after, attempts, attempts_ended
        from operations
        where namespace = :namespace and operation_id = :operation_id))
where namespace = :namespace and operation_id = :operation_id
returning /* columns */;
