-- Drop the records of nodes that have been silent for a whole lease.
-- KEYS: nodes beats sessions draining room clashes
-- ARGV: the names
-- RETURNS: the names of those dropped
local nodes, beats, sessions, draining, room, clashes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
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
      redis.call("HDEL", sessions, node)
      redis.call("HDEL", draining, node)
      redis.call("ZREM", room, node)
      redis.call("HDEL", clashes, node)
      dropped[#dropped + 1] = node
    end
  end
end
return dropped
