-- Note that a claimed job's process runs; a job that is no longer this claim's is left alone.
-- KEYS: the queue's
-- ARGV: id, token, pid
-- RETURNS: 1 | 0 when refused
-- INCLUDES: queue_rules
local id = ARGV[1]
if redis.call("HGET", owners, id) ~= ARGV[2] then
  return 0
end
local job = read(id)
if job.state == "starting" then
  job.state, job.started_ms = "running", now_ms
  redis.call("HINCRBY", measures, "started", 1)
  tell("job.started", id, job)
end
job.pid = tonumber(ARGV[3])
write(id, job)
return 1
