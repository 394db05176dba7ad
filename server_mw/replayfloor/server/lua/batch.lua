-- Promises of each operation what acquire.lua, release.lua and extend.lua promise of theirs; one
-- after the other, in the order given. One that fails does not disturb the next.
--
-- KEYS: a lock for each operation. ARGV: four for each: kind, fence (16 bytes), then
--   "a" (acquire)  fingerprint (16 bytes), lease in ms
--   "r" (release)  fingerprint and receipt or an empty string, ms to keep it
--   "e" (extend)   an empty string, lease in ms
-- Returns one string with a letter for each operation, and what belongs to them after it, in their
-- order: "A" acquired; "H" held: fingerprint, ms left; "C" cached: fingerprint and receipt;
-- "D" damaged, a value that nobody here has written; "1" done, "0" not the caller's; "F" failed.
local letters, more = {}, {}

local function acquire(key, fence, fingerprint, lease_ms, value)
    if value then
        local kind = string.sub(value, 1, 1)
        if kind == 'R' then
            more[#more + 1] = string.sub(value, 2)
            return 'C'
        end
        if kind ~= 'L' or #value ~= 33 then
            return 'D'
        end
        -- Held by the caller itself: the first answer was lost. The lease starts anew.
        if string.sub(value, 2, 17) ~= fence then
            more[#more + 1] = string.sub(value, 18, 33)
            more[#more + 1] = redis.call('PTTL', key)
            return 'H'
        end
    end
    redis.call('SET', key, 'L' .. fence .. fingerprint, 'PX', lease_ms)
    return 'A'
end

-- Without the look at the fence, an execution whose lease ran out would free another's lock.
local function owns(value, fence)
    return value and string.sub(value, 1, 17) == 'L' .. fence
end

for place, key in ipairs(KEYS) do
    local at = 4 * place - 3
    local kind, fence, what, ms = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local value = redis.pcall('GET', key)
    if type(value) == 'table' then
        letters[place] = 'F'
    elseif kind == 'a' then
        letters[place] = acquire(key, fence, what, ms, value)
    elseif not owns(value, fence) then
        letters[place] = '0'
    else
        if kind == 'e' then
            redis.call('PEXPIRE', key, ms)
        elseif what == '' then
            redis.call('DEL', key)
        else
            redis.call('SET', key, 'R' .. what, 'PX', ms)
        end
        letters[place] = '1'
    end
end
table.insert(more, 1, table.concat(letters))
return more
