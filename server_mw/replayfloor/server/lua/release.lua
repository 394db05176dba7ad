-- Promises: the lock ends, or gives place to a receipt, only if it is still the caller's.
--
-- KEYS[1] lock; ARGV: fence (16 bytes), fingerprint and receipt or an empty string, ms to keep it.
-- Without the look at the fence, an execution whose lease ran out would free another's lock.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, 17) ~= 'L' .. ARGV[1] then
    return 0
end
if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], 'R' .. ARGV[2], 'PX', ARGV[3])
end
return 1
