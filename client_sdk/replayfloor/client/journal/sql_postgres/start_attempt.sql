-- Promises what replayfloor_client.start_attempt_v1 promises; one round trip.
select /* columns */
from replayfloor_client.start_attempt_v1(
    %(namespace)s, %(operation_id)s, %(at_ns)s, %(elapsed_ns)s, %(lease_owner)s, %(lease_ns)s);
