-- Promises: each key that is still the caller's holds its receipt instead.
-- KEYS the keys; ARGV what each holds and what it is to hold, then for how many ms.
for place, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[2 * place - 1] then
        redis.call('SET', key, ARGV[2 * place], 'PX', ARGV[#ARGV])
    end
end
return 1
