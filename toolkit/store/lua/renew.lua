-- Keep a rollout lock for another term, if the token still holds it.
-- KEYS: lock
-- ARGV: token, ttl_ms
-- RETURNS: "done" | "not_ours"
local lock = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])

local time = redis.call("TIME")
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local held = redis.call("HMGET", lock, "token", "expires_ms")
if held[1] ~= token or tonumber(held[2]) <= now_ms then
  return "not_ours"
end

local expires_ms = string.format("%.0f", now_ms + ttl_ms)
redis.call("HSET", lock, "expires_ms", expires_ms)
redis.call("PEXPIREAT", lock, expires_ms)
return "done"
