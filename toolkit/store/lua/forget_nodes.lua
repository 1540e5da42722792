-- Drop the records of nodes that have been silent for a whole lease.
-- KEYS: nodes beats sessions draining room clashes
-- ARGV: the names
-- RETURNS: the names of those dropped
local nodes, beats = KEYS[1], KEYS[2]
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local dropped = {}
for _, node in ipairs(ARGV) do
  local body = redis.call("HGET", nodes, node)
  if body then
    local lease_ms = (cjson.decode(body).lease_s or 15) * 1000
    if tonumber(redis.call("ZSCORE", beats, node) or 0) <= now_ms - lease_ms then
      redis.call("HDEL", nodes, node)
      redis.call("ZREM", beats, node)
      for at = 3, 6 do
        redis.call(KEYS[at] == KEYS[5] and "ZREM" or "HDEL", KEYS[at], node)
      end
      dropped[#dropped + 1] = node
    end
  end
end
return dropped
