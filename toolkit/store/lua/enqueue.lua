-- Put new jobs into the queue, all or none, and wake the nodes.
-- KEYS: the queue's
-- ARGV: is_unique ("1" or "0"), then the jobs, each as `enqueue_rules` says
-- RETURNS: {"done"} | {"known", id} | {"same", id} | {"twice", id}: the first job that is known, or like one that is not
-- final, or like one before it in this call
-- INCLUDES: enqueue_rules
for at = 2, #ARGV, EACH do
  if redis.call("HEXISTS", jobs, ARGV[at]) == 1 then
    return { "known", ARGV[at] }
  end
end
if ARGV[1] == "1" then
  local here = {}
  for at = 2, #ARGV, EACH do
    local likeness = ARGV[at + 6]
    if redis.call("HEXISTS", same, likeness) == 1 then
      return { "same", ARGV[at] }
    end
    if here[likeness] then
      return { "twice", ARGV[at] }
    end
    here[likeness] = true
  end
end
enter(2, (#ARGV - 1) / EACH)
wake_nodes("queue")
return { "done" }
