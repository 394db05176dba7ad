-- Promises what replayfloor_client.begin_v1 promises; one round trip.
select b.resumed, (b.entry).*
from replayfloor_client.begin_v1(
    cast(row(/* values */) as replayfloor_client.operations), %(lease_ns)s) as b;
