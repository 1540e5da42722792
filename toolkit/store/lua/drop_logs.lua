-- Forget the shipped logs of those among some jobs that have ended, or of which nothing was shipped for long.
-- KEYS: order ended sizes
--       then for each job its log and its parts
-- ARGV: keep_ms (-1: whatever its age, if it has ended), then for each job its id
-- RETURNS: how many were forgotten
-- FLAGS: allow-oom
local order, ended, sizes = KEYS[1], KEYS[2], KEYS[3]
local keep_ms = tonumber(ARGV[1])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local dropped = 0

for at = 2, #ARGV do
  local job = ARGV[at]
  local touched_ms = redis.call("ZSCORE", order, job)
  local is_old = touched_ms and keep_ms >= 0 and tonumber(touched_ms) < now_ms - keep_ms
  local makes_room = keep_ms < 0 and redis.call("ZSCORE", ended, job)
  if is_old or makes_room then
    redis.call("UNLINK", KEYS[2 * at], KEYS[2 * at + 1])
    redis.call("HINCRBY", sizes, "*", -tonumber(redis.call("HGET", sizes, job) or 0))
    redis.call("HDEL", sizes, job)
    redis.call("ZREM", order, job)
    redis.call("ZREM", ended, job)
    dropped = dropped + 1
  end
end
return dropped
