-- Promises the settings that are asked for, as this role's session in this database has them.
select name, setting from pg_catalog.pg_settings where name = any(%(names)s)
