-- Lay down how far some active jobs are, and count what they have done since they were last sampled.
-- KEYS: sampling progress measures series_prefix
-- ARGV: number of the turn, ttl_ms, then for each job: id, record without its time
-- RETURNS: 1 | 0 when another turn has begun
local sampling, progress, measures, series_prefix = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local number, ttl_ms = ARGV[1], ARGV[2]
if redis.call("HGET", sampling, "number") ~= number then
  return 0
end
local time = redis.call("TIME")
local at = struct.pack(">d", time[1] * 1000 + math.floor(time[2] / 1000))

local ids = {}
for i = 3, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end
local told = redis.call("HMGET", progress, unpack(ids))

local UNKNOWN = 4294967295
local done = { 0, 0, 0 }
-- What ran before anybody sampled is not of this moment.
local is_first_ever = number == "1"
local function count(kind, now, before)
  if now ~= UNKNOWN then
    -- Fewer than before: another attempt has begun, from nothing.
    local known = before ~= nil and before ~= UNKNOWN and before <= now and before or 0
    done[kind] = done[kind] + now - known
  end
end

for i, id in ipairs(ids) do
  -- A job that has ended meanwhile was counted to its end when it did.
  if told[i] then
    local key, record = series_prefix .. id, ARGV[2 * i + 2]
    local pages, items, errors = struct.unpack(">I4I4I4", record)
    local last = redis.call("GETRANGE", key, -16, -1)
    if last == "" then
      redis.call("SET", key, at .. record, "PX", ttl_ms)
      if not is_first_ever then
        count(1, pages)
        count(2, items)
        count(3, errors)
      end
    else
      local pages_then, items_then, errors_then = struct.unpack(">I4I4I4", last)
      redis.call("APPEND", key, at .. record)
      count(1, pages, pages_then)
      count(2, items, items_then)
      count(3, errors, errors_then)
    end
  end
end
for kind, name in ipairs({ "pages", "items", "errors" }) do
  if done[kind] > 0 then
    redis.call("HINCRBY", measures, name, string.format("%.0f", done[kind]))
  end
end
return 1
