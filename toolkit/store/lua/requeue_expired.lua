-- Return the jobs whose lease has ended to the queue, or call them lost; give all a full term after a silence of all.
-- KEYS: the queue's
-- ARGV: max_jobs, lease_ms where no lease is known
-- RETURNS: a flat list of id, state now, token of the claim that is over
-- INCLUDES: queue_rules
local max_jobs = tonumber(ARGV[1])
local lease_ms = tonumber(redis.call("HGET", clock, "lease_ms") or ARGV[2])
local asked_ms = tonumber(redis.call("HGET", clock, "asked_ms") or 0)
redis.call("HSET", clock, "asked_ms", now_ms)

-- Nobody asked for most of a lease: Redis, or the way to it, was away for all, and no node had a chance to renew.
if now_ms - asked_ms > lease_ms * 0.6 then
  redis.call("HSET", clock, "grace_ms", now_ms + lease_ms)
end
if now_ms < tonumber(redis.call("HGET", clock, "grace_ms") or 0) then
  return {}
end

local settled = {}
for _, id in ipairs(redis.call("ZRANGEBYSCORE", leases, "-inf", now_ms, "LIMIT", 0, max_jobs)) do
  local job, token = read(id), redis.call("HGET", owners, id)
  disown(id, job)
  settled[#settled + 1] = id
  settled[#settled + 1] = requeue(id, job, job.node .. " was lost", false)
  settled[#settled + 1] = token or ""
end
if #settled > 0 then
  redis.call("HINCRBY", measures, "leases_lost", #settled / 3)
  wake_nodes("queue")
end
return settled
