-- Promises who answers: process, version, whether it takes writes, and what this role may see.
select pg_backend_pid(), current_setting('server_version_num')::integer, pg_is_in_recovery(),
       current_user::text, current_database()::text,
       r.rolsuper or pg_has_role(current_user, 'pg_read_all_stats', 'usage')
from pg_catalog.pg_roles as r
where r.rolname = current_user
