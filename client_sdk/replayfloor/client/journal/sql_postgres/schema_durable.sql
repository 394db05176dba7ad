-- Makes the commit of the transaction that calls it wait for the disk; returns true.
--
-- Also where a database or a role does not wait for commits: an entry that is lost in a crash of
-- the server is a key that is lost, and a second execution. Settings that wait for more, or for
-- the own disk only, are left as they are. A statement has it in its conditions: what is not
-- called for a row does not change the row.
create function replayfloor_client.durable_v1() returns boolean
language plpgsql volatile as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    return true;
end
$$;
