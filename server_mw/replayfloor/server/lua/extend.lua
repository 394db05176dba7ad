-- Promises: the lock's lease begins anew, only if it is still the caller's.
--
-- KEYS[1] lock; ARGV: fence (16 bytes), lease in ms. Returns 1 or 0.
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 1, 17) ~= 'L' .. ARGV[1] then
    return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
