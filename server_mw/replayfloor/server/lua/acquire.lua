-- Promises: the lock is the caller's, or says who has it, or shows the receipt kept in its place.
--
-- KEYS[1] lock; ARGV: fence (16 bytes), fingerprint (16 bytes), lease in ms.
-- Value: "L" fence fingerprint while held, "R" fingerprint receipt when finished.
-- Returns {"acquired"} | {"held", fingerprint, ms left} | {"cached", fingerprint, receipt}, and
-- {"damaged"} for a value that nobody here has written.
local value = redis.call('GET', KEYS[1])
if value then
    local kind = string.sub(value, 1, 1)
    if kind == 'R' then
        return {'cached', string.sub(value, 2, 17), string.sub(value, 18)}
    end
    if kind ~= 'L' or #value ~= 33 then
        return {'damaged'}
    end
    -- Held by the caller itself: the first answer was lost. The lease starts anew.
    if string.sub(value, 2, 17) ~= ARGV[1] then
        return {'held', string.sub(value, 18, 33), redis.call('PTTL', KEYS[1])}
    end
end
redis.call('SET', KEYS[1], 'L' .. ARGV[1] .. ARGV[2], 'PX', ARGV[3])
return {'acquired'}
