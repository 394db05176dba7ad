-- Promises what replayfloor.declare_policy_v1 promises; one round trip.
select state, digest, retention_s, policy, noted_at
from replayfloor.declare_policy_v1(
    %(namespace)s, %(digest)s, %(retention_s)s, %(text)s, %(accept_shorter)s)
