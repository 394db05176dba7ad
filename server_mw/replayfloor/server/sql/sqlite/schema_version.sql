-- Promises to show whether the schema is there: its table, or no row.
select name from sqlite_schema where type = 'table' and name = 'replayfloor_schema'
