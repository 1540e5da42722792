-- Give a project's rollout lock to one taker under a token larger than any before it; its holder loses it only to a steal.
-- KEYS: lock tokens
-- ARGV: claim (JSON: who, why), ttl_ms, steal ("1" or "0")
-- RETURNS: {"taken" | "held", token, claim, since_ms, expires_ms} of the lock that now stands
local lock, tokens = KEYS[1], KEYS[2]
local claim, ttl_ms, steal = ARGV[1], tonumber(ARGV[2]), ARGV[3] == "1"

local time = redis.call("TIME")
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local held = redis.call("HMGET", lock, "token", "claim", "since_ms", "expires_ms")
if held[1] and tonumber(held[4]) > now_ms and not steal then
  return { "held", held[1], held[2], held[3], held[4] }
end

-- The clock is the floor of the counter, so that a token is new even where the last writes to `tokens` were lost.
local last = tonumber(redis.call("GET", tokens) or "0")
local token = string.format("%.0f", math.max(last + 1, now_ms))
local since_ms, expires_ms = string.format("%.0f", now_ms), string.format("%.0f", now_ms + ttl_ms)
redis.call("SET", tokens, token)
redis.call("DEL", lock)
redis.call("HSET", lock, "token", token, "claim", claim, "since_ms", since_ms, "expires_ms", expires_ms)
redis.call("PEXPIREAT", lock, expires_ms)
return { "taken", token, claim, since_ms, expires_ms }
