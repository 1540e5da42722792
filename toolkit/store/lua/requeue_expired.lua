-- Return the jobs whose lease has ended to the queue, or call them lost; give all a full term after a silence of all.
-- KEYS: the queue's, then sessions
-- ARGV: max_jobs, lease_ms where no lease is known
-- RETURNS: a flat list of id, state now, token of the claim that is over
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local max_jobs = tonumber(ARGV[1])
local lease_ms = tonumber(redis.call("HGET", clock, "lease_ms") or ARGV[2])
local asked_ms = tonumber(redis.call("HGET", clock, "asked_ms") or 0)
redis.call("HSET", clock, "asked_ms", now_ms)
local _, back_lease_ms = returned_ms(lease_ms)

-- A clock that was set back leaves leases and signs of life in a time to come: none is further off than its own length.
for _, id in ipairs(redis.call("ZRANGEBYSCORE", leases, now_ms + lease_ms, "+inf", "LIMIT", 0, max_jobs)) do
  local job = read(id)
  local session = job and redis.call("HGET", KEYS[26], job.node or "")
  local its_lease_ms = session and cjson.decode(session).lease_ms or lease_ms
  redis.call("ZADD", leases, "LT", now_ms + its_lease_ms, id)
end
for _, node in ipairs(redis.call("ZRANGEBYSCORE", beats, now_ms + 1, "+inf", "LIMIT", 0, max_jobs)) do
  redis.call("ZADD", beats, now_ms, node)
end

-- Nobody asked for most of a lease: Redis, or the way to it, was away for all, and no node had a chance to renew.
if now_ms - asked_ms > lease_ms * 0.6 then
  redis.call("HSET", clock, "grace_ms", now_ms + lease_ms)
end
local grace_ms = tonumber(redis.call("HGET", clock, "grace_ms") or 0)
if now_ms < grace_ms then
  local longest_ms = math.max(lease_ms, back_lease_ms)
  if grace_ms > now_ms + longest_ms then
    redis.call("HSET", clock, "grace_ms", now_ms + longest_ms)
  end
  return {}
end

local settled = {}
for _, id in ipairs(redis.call("ZRANGEBYSCORE", leases, "-inf", now_ms, "LIMIT", 0, max_jobs)) do
  local job, token = read(id), redis.call("HGET", owners, id)
  if job then
    disown(id, job)
    settled[#settled + 1] = id
    settled[#settled + 1] = requeue(id, job, job.node .. " was lost", false)
    settled[#settled + 1] = token or ""
  else
    -- Somebody has removed its record: there is nothing to return.
    redis.call("HDEL", owners, id)
    redis.call("ZREM", leases, id)
  end
end
if #settled > 0 then
  redis.call("HINCRBY", measures, "leases_lost", #settled / 3)
  wake_nodes("queue")
end
return settled
