-- Give the next turn at sampling to whoever asks first when it is due.
-- KEYS: sampling
-- ARGV: every_ms
-- RETURNS: number of the turn | nil when it is not due
local sampling, every_ms = KEYS[1], tonumber(ARGV[1])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local due_ms = tonumber(redis.call("HGET", sampling, "at_ms") or 0) + every_ms
-- A clock that was set back would hold everybody up.
if due_ms > now_ms and due_ms <= now_ms + every_ms then
  return nil
end
redis.call("HSET", sampling, "at_ms", now_ms)
return redis.call("HINCRBY", sampling, "number", 1)
