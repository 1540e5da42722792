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
local unpack_counts, call = struct.unpack, redis.call
-- What has been done since; fewer than before tells that another attempt has begun, from nothing.
local function since(now, before)
  if now == UNKNOWN then
    return 0
  end
  return before <= now and now - before or now
end

local done = { 0, 0, 0 }
for i, id in ipairs(ids) do
  -- A job that has ended meanwhile was counted to its end when it did.
  if told[i] then
    local key, record = series_prefix .. id, ARGV[2 * i + 2]
    local last = call("GETRANGE", key, -16, -1)
    local pages, items, errors = unpack_counts(">I4I4I4", record)
    if last ~= "" then
      local pages_then, items_then, errors_then = unpack_counts(">I4I4I4", last)
      call("APPEND", key, at .. record)
      done[1] = done[1] + since(pages, pages_then)
      done[2] = done[2] + since(items, items_then)
      done[3] = done[3] + since(errors, errors_then)
    else
      call("SET", key, at .. record, "PX", ttl_ms)
      -- What ran before anybody sampled is not of this moment.
      if number ~= "1" then
        done[1], done[2], done[3] = done[1] + since(pages, 0), done[2] + since(items, 0), done[3] + since(errors, 0)
      end
    end
  end
end
for kind, name in ipairs({ "pages", "items", "errors" }) do
  if done[kind] > 0 then
    redis.pcall("HINCRBY", measures, name, string.format("%.0f", done[kind]))
  end
end
return 1
