-- Forget the oldest jobs in a final state, beyond an age or a number, and how far they were when they ran.
-- KEYS: the queue's, then series_prefix
-- ARGV: max_age_ms, max_jobs, most at once
-- RETURNS: how many were forgotten
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local most = tonumber(ARGV[3])
local oldest_ms = now_ms - tonumber(ARGV[1])
local beyond = math.min(redis.call("ZCARD", final) - tonumber(ARGV[2]), most)
local old = beyond > 0 and redis.call("ZRANGE", final, 0, beyond - 1) or {}
if #old == 0 then
  for _, id in ipairs(redis.call("ZRANGEBYSCORE", final, "(0", oldest_ms * 1000, "LIMIT", 0, most)) do
    local job = read(id)
    -- What waited or ran for long is as old as its end.
    if not job or not job.ended_ms or job.ended_ms < oldest_ms then
      old[#old + 1] = id
    end
  end
end
for _, id in ipairs(old) do
  local job = read(id)
  if job and job.line then
    redis.call("HINCRBY", clock, "ended", -1)
  end
  redis.call("HDEL", jobs, id)
  redis.call("HDEL", orders, id)
  redis.call("ZREM", ids, id)
  redis.call("ZREM", final, id)
  redis.call("ZREM", lost, id)
  redis.call("UNLINK", KEYS[26] .. id)
end
return #old
