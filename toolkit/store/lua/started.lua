-- Note that a claimed job's process runs; a job that is no longer this claim's is left alone.
-- KEYS: the queue's
-- ARGV: id, token, pid, lease_ms
-- RETURNS: 1 | 0 when refused; a job that is not known at all refuses nobody
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local id = ARGV[1]
local job = read(id)
if not job then
  return 1
end
if not holds(id, job, ARGV[2], tonumber(ARGV[4])) then
  return 0
end
if job.state == "starting" then
  job.state, job.started_ms = "running", now_ms
  redis.call("HINCRBY", measures, "started", 1)
  tell("job.started", id, job)
end
job.pid = tonumber(ARGV[3])
write(id, job)
return 1
