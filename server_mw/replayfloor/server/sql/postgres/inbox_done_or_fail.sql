-- Promises what replayfloor.inbox_done_or_fail_v1 promises; the COMMIT goes along.
select replayfloor.inbox_done_or_fail_v1(%(id)s, %(fence)s)
