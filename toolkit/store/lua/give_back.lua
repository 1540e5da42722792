-- Put a claimed job that was never begun back to its place, without counting the attempt.
-- KEYS: the queue's
-- ARGV: id, token, reason
-- RETURNS: 1 | 0 when refused
-- INCLUDES: queue_rules
local id = ARGV[1]
if redis.call("HGET", owners, id) ~= ARGV[2] then
  return 0
end
local job = read(id)
disown(id, job)
if job.cancel_ms then
  settle(id, job, "cancelled", "cancelled before it was begun")
else
  job.attempt = job.attempt - 1
  return_to_line(id, job, ARGV[3])
  wake_nodes("queue")
end
return 1
