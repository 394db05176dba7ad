-- Promises what other roles, or other databases of this role, are told of the settings asked for.
select coalesce('role ' || r.rolname, 'every role'),
       split_part(c.entry, '=', 1), split_part(c.entry, '=', 2)
from pg_catalog.pg_db_role_setting as s
left join pg_catalog.pg_roles as r on r.oid = s.setrole
left join pg_catalog.pg_database as d on d.oid = s.setdatabase
cross join lateral unnest(s.setconfig) as c (entry)
where (s.setdatabase = 0 or d.datname = current_database())
  and split_part(c.entry, '=', 1) = any(%(names)s)
order by 1, 2
