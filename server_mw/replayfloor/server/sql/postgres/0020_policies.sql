-- Promises: a namespace has one noted policy at a time, and a retention becomes shorter only by
-- somebody's consent, however many deployments start at once.

create table replayfloor.policies (
    namespace   text             not null primary key,
    digest      text             not null,
    retention_s double precision not null check (retention_s > 0),
    text        text             not null,
    noted_at    timestamptz      not null
);

comment on table replayfloor.policies is
    'How long receipts of a namespace are kept, as the last deployment declared it, and why.';

-- state: first | same | changed | shortened | refused; what follows it is the policy that was noted
-- before, null at the first. Of simultaneous declarations each sees what the one before it left:
-- the insert waits for another one, and the row is locked before it is looked at.
create function replayfloor.declare_policy_v1(
    p_namespace text, p_digest text, p_retention_s double precision, p_text text,
    p_accept_shorter boolean,
    out state text, out digest text, out retention_s double precision, out policy text,
    out noted_at timestamptz
) language plpgsql as $$
begin
    insert into replayfloor.policies as p (namespace, digest, retention_s, text, noted_at)
    values (p_namespace, p_digest, p_retention_s, p_text, replayfloor.now_v1())
    on conflict (namespace) do nothing;
    if found then
        state := 'first';
        return;
    end if;
    select p.digest, p.retention_s, p.text, p.noted_at
    into strict digest, retention_s, policy, noted_at
    from replayfloor.policies as p where p.namespace = p_namespace for update;
    if digest = p_digest then
        state := 'same';
        return;
    elsif p_retention_s >= retention_s then
        state := 'changed';
    elsif p_accept_shorter then
        state := 'shortened';
    else
        state := 'refused';
        return;
    end if;
    update replayfloor.policies as p
    set digest = p_digest, retention_s = p_retention_s, text = p_text,
        noted_at = replayfloor.now_v1()
    where p.namespace = p_namespace;
end
$$;
