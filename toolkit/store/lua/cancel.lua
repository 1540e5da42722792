-- Cancel pending jobs at once, and record the wish for active ones before any signal is sent.
-- KEYS: the queue's
-- ARGV: grace_s, then the ids
-- RETURNS: a flat list of id, state before, of the jobs that are known
-- INCLUDES: kept_rules
-- FLAGS: allow-oom
local answer, woken = {}, {}
for at = 2, #ARGV do
  local id = ARGV[at]
  local job = read(id)
  if job then
    answer[#answer + 1] = id
    answer[#answer + 1] = shown_state(id, job)
    ask_to_end(id, job, tonumber(ARGV[1]), woken)
  end
end
for node in pairs(woken) do
  wake_nodes(node)
end
return answer
