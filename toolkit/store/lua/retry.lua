-- Put jobs that did not finish well back into the queue, behind those that wait, with all their attempts.
-- KEYS: the queue's
-- ARGV: the ids
-- RETURNS: the ids of those that are pending now
-- INCLUDES: queue_rules
local again = {}
for _, id in ipairs(ARGV) do
  local job = read(id)
  if job and job.line and (job.state == "failed" or job.state == "lost" or job.state == "cancelled") then
    reopen(id, job)
    job.seq = redis.call("HINCRBY", clock, "seq", 1)
    job.attempt, job.cancel_ms, job.is_held = 0, nil, nil
    return_to_line(id, job, "retried after it was " .. job.state)
    again[#again + 1] = id
  end
end
if #again > 0 then
  wake_nodes("queue")
end
return again
