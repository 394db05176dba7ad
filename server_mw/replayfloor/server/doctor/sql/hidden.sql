-- Promises how many sessions of this database do not let this role see since when they are at it.
select count(*) from pg_catalog.pg_stat_activity
where datname = current_database() and query = '<insufficient privilege>'
