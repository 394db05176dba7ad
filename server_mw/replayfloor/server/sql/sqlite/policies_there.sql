-- Promises one row if the noted policies have their table.
select 1 from sqlite_master where type = 'table' and name = 'replayfloor_policies'
