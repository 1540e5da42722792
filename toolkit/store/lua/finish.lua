-- Record the one outcome of a claim, or put the job back where the ending calls for it and an attempt is left.
-- KEYS: the queue's, then series_prefix
-- ARGV: id, token, state (finished, failed, lost), reason, ago_ms, ending (JSON: exit_code, signal, counts), is_counted
--       ("1" or "0": whether a lost one's attempt is used up), lease_ms, is_cancelled ("1" when the node was asked for it)
-- RETURNS: the job's state now | nil when it is no longer this claim's | "unknown"
-- INCLUDES: kept_rules
-- FLAGS: allow-oom
local id, token, state, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local job = read(id)
if not job then
  return "unknown"
end
if not holds(id, job, token, tonumber(ARGV[8])) then
  -- The same ending again, by an owner who lost the first answer.
  return job.token == token and job.state ~= "pending" and not is_active(job) and job.state or nil
end

if ARGV[9] == "1" then
  job.cancel_ms = job.cancel_ms or now_ms
end

-- Count what it did since it was last sampled: nobody will sample this attempt again.
local told = cjson.decode(ARGV[6])
local last = redis.call("GETRANGE", KEYS[26] .. id, -16, -1)
local sampled = {}
if last ~= "" then
  sampled.pages, sampled.items, sampled.errors = struct.unpack(">I4I4I4", last)
end
for _, name in ipairs({ "pages", "items", "errors" }) do
  local before = sampled[name] or 0
  -- More before than now (all ones: not known) was not of this attempt.
  local done = (told[name] or 0) - (before <= (told[name] or 0) and before or 0)
  if done > 0 then
    -- Whatever spiders say that they have done, a sum that is full keeps no job from ending.
    redis.pcall("HINCRBY", measures, name, string.format("%.0f", done))
  end
end

disown(id, job)
if state == "lost" then
  wake_nodes("queue")
  if ARGV[7] == "0" then
    job.attempt = job.attempt - 1
  end
  return requeue(id, job, reason, true)
end
for name, value in pairs(told) do
  job[name] = value
end
job.ended_ms = math.max(job.started_ms or job.claimed_ms, now_ms - tonumber(ARGV[5]))
if job.cancel_ms and not (state == "finished" and job.finish_reason == "finished") then
  settle(id, job, "cancelled", "cancelled on request")
elseif state == "failed" and job.retries_failed and job.attempt < job.attempts then
  return_to_line(id, job, reason)
else
  settle(id, job, state, reason)
end
-- A cap may have room now.
if redis.call("EXISTS", caps) == 1 or job.state == "pending" then
  wake_nodes("queue")
end
return job.state
