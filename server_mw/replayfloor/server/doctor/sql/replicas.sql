-- Promises who receives what is written here, how far it is, and whether a commit waits for it;
-- what this role may not see is null.
select coalesce(application_name, ''), state, sync_state
from pg_catalog.pg_stat_replication
order by 1
