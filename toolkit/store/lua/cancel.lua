-- Cancel pending jobs at once, and record the wish for active ones before any signal is sent.
-- KEYS: the queue's
-- ARGV: grace_s, then the ids
-- RETURNS: a flat list of id, state before, of the jobs that are known
-- INCLUDES: queue_rules
local answer, woken = {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local job = read(id)
  if job then
    answer[#answer + 1] = id
    answer[#answer + 1] = shown_state(id, job)
    if is_pending(job) then
      step_out(id, job)
      job.cancel_ms = job.cancel_ms or now_ms
      settle(id, job, "cancelled", "cancelled while it was pending")
    elseif is_active(job) then
      job.cancel_ms = job.cancel_ms or now_ms
      local wish = cjson.decode(redis.call("HGET", wishes, id) or "{}")
      wish.cancel_grace_s = math.min(tonumber(ARGV[1]), wish.cancel_grace_s or math.huge)
      redis.call("HSET", wishes, id, cjson.encode(wish))
      write(id, job)
      woken[job.node] = true
    end
  end
end
for node in pairs(woken) do
  wake_nodes(node)
end
return answer
