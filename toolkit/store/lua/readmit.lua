-- Take up a job that this Redis has never heard of, or has forgotten, under the claim of the node that has it.
-- KEYS: the queue's
-- ARGV: token, lease_ms, then the job as `enqueue_rules` says
-- RETURNS: 1 | 0 when the job is known by now
-- INCLUDES: enqueue_rules
local token, lease_ms, id = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if redis.call("HEXISTS", jobs, id) == 1 then
  return 0
end
enter(3, 1)
local job = read(id)
job.last_claim = 0
holds(id, job, token, lease_ms)
return 1
