-- Remember new jobs, all or none, then drop the oldest jobs in a final state beyond the newest max_jobs of them.
-- KEYS: jobs unfinished final ids orders clock lost
-- ARGV: max_jobs, then for each job: id, score, is_final ("1" or "0"), job (JSON)
-- RETURNS: {"done"} | {"known", id} with the first job that is known already
local jobs, unfinished, final, ids, orders = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clock, lost = KEYS[6], KEYS[7]
local max_jobs = tonumber(ARGV[1])

for at = 2, #ARGV, 4 do
  if redis.call("HEXISTS", jobs, ARGV[at]) == 1 then
    return { "known", ARGV[at] }
  end
end

for at = 2, #ARGV, 4 do
  local id, score, is_final, job = ARGV[at], ARGV[at + 1], ARGV[at + 2] == "1", ARGV[at + 3]
  redis.call("HSET", jobs, id, job)
  redis.call("ZADD", is_final and final or unfinished, score, id)
  redis.call("ZADD", ids, 0, id)
end

local beyond = redis.call("ZCARD", final) - max_jobs
if beyond > 0 then
  for _, id in ipairs(redis.call("ZRANGE", final, 0, beyond - 1)) do
    -- The shared queue counts those of its own that have ended, and only they have an order of their own.
    redis.call("HINCRBY", clock, "ended", -redis.call("HDEL", orders, id))
    redis.call("HDEL", jobs, id)
    redis.call("ZREM", ids, id)
    redis.call("ZREM", lost, id)
  end
  redis.call("ZREMRANGEBYRANK", final, 0, beyond - 1)
end
return { "done" }
