-- Forget the oldest jobs in a final state, beyond an age or a number.
-- KEYS: the queue's
-- ARGV: max_age_ms, max_jobs, most at once
-- RETURNS: how many were forgotten
-- INCLUDES: queue_rules
local most = tonumber(ARGV[3])
local old = redis.call("ZRANGEBYSCORE", final, "(0", (now_ms - tonumber(ARGV[1])) * 1000, "LIMIT", 0, most)
local beyond = math.min(redis.call("ZCARD", final) - tonumber(ARGV[2]), most)
if beyond > #old then
  old = redis.call("ZRANGE", final, 0, beyond - 1)
end
for _, id in ipairs(old) do
  redis.call("HDEL", jobs, id)
  redis.call("HDEL", orders, id)
  redis.call("ZREM", ids, id)
  redis.call("ZREM", final, id)
  redis.call("ZREM", lost, id)
end
return #old
