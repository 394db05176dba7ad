-- Promises: for each key, in order, what is there, or nothing and the key is the caller's.
-- KEYS the keys; ARGV a value for each, then the lease in ms.
local found = {}
for place, key in ipairs(KEYS) do
    found[place] = redis.call('SET', key, ARGV[place], 'NX', 'GET', 'PX', ARGV[#KEYS + 1])
end
return found
