-- Returns every operation once, in the order of its name.
select * from sightings order by namespace, operation_id
