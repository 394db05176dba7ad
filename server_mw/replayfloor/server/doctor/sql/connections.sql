-- Promises how many connections there are in all and of our workers, and this role's and this
-- database's own limits; -1 for none.
select (select sum(numbackends) from pg_catalog.pg_stat_database)::integer,
       (select count(*) from pg_catalog.pg_stat_activity
        where application_name = 'replayfloor' and pid <> pg_backend_pid())::integer,
       (select case when rolsuper then -1 else rolconnlimit end
        from pg_catalog.pg_roles where rolname = current_user),
       (select datconnlimit from pg_catalog.pg_database where datname = current_database())
