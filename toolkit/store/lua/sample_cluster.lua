-- Append a sample of the cluster; its rates are of what was counted since the last one, and none is negative.
-- KEYS: sampling measures cluster_series
-- ARGV: number of the turn, most samples, pending, active, nodes, slots
-- RETURNS: 1 | 0 when another turn has begun
local sampling, measures, cluster_series = KEYS[1], KEYS[2], KEYS[3]
if redis.call("HGET", sampling, "number") ~= ARGV[1] then
  return 0
end
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local counted = redis.call("HMGET", measures, "pages", "items", "errors")
local before = redis.call("HMGET", sampling, "pages", "items", "errors", "counted_ms")
local elapsed_s = (now_ms - tonumber(before[4] or now_ms)) / 1000

local rates = {}
for i = 1, 3 do
  local done = tonumber(counted[i] or 0) - tonumber(before[i] or 0)
  rates[i] = elapsed_s > 0 and done > 0 and done / elapsed_s or 0
end
local names = { "pages", counted[1] or 0, "items", counted[2] or 0, "errors", counted[3] or 0 }
redis.call("HSET", sampling, "counted_ms", now_ms, unpack(names))
local pending, active, nodes, slots = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local record = struct.pack(">dI4I4I4I4ddd", now_ms, pending, active, nodes, slots, unpack(rates))
redis.call("RPUSH", cluster_series, record)
redis.call("LTRIM", cluster_series, -tonumber(ARGV[2]), -1)
return 1
