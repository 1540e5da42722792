-- Put a claimed job that was never begun back to its place, without counting the attempt.
-- KEYS: the queue's
-- ARGV: id, token, reason, lease_ms, whom to wake ("" for nobody)
-- RETURNS: 1 | 0 when refused | -1 when no such job is known
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local id = ARGV[1]
local job = read(id)
if not job then
  return -1
end
if not holds(id, job, ARGV[2], tonumber(ARGV[4])) then
  return 0
end
disown(id, job)
if job.cancel_ms then
  settle(id, job, "cancelled", "cancelled before it was begun")
else
  job.attempt = job.attempt - 1
  return_to_line(id, job, ARGV[3])
  if ARGV[5] ~= "" then
    wake_nodes(ARGV[5])
  end
end
return 1
