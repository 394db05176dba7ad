-- Promises: a run that has begun, and did not come to its end, is known as failed.
update replayfloor.maintenance set outcome = 'failed', detail = %(detail)s
where outcome = 'running'
