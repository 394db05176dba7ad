-- Promises the server's clock, read while the statement runs, in seconds since 1970.
select extract(epoch from clock_timestamp())::double precision
