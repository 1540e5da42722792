-- Put new jobs into the queue, all or none, and wake the nodes.
-- KEYS: the queue's
-- ARGV: is_unique ("1" or "0"), then for each job: id, score, facts (JSON), order (JSON)
-- RETURNS: {"done"} | {"known", id} | {"same", id}: the first job that is known, or like one that is not final
-- INCLUDES: queue_rules
for at = 2, #ARGV, 4 do
  if redis.call("HEXISTS", jobs, ARGV[at]) == 1 then
    return { "known", ARGV[at] }
  end
end
if ARGV[1] == "1" then
  local here = {}
  for at = 2, #ARGV, 4 do
    local job = cjson.decode(ARGV[at + 2])
    if here[job.same] or redis.call("HEXISTS", same, job.same) == 1 then
      return { "same", ARGV[at] }
    end
    here[job.same] = true
  end
end

local first = redis.call("INCRBY", tokens, (#ARGV - 1) / 4) - (#ARGV - 1) / 4
for at = 2, #ARGV, 4 do
  local id, job = ARGV[at], cjson.decode(ARGV[at + 2])
  job.seq = first + (at - 2) / 4 + 1
  line_up(id, job)
  count_same(job, 1)
  write(id, job)
  redis.call("HSET", orders, id, ARGV[at + 3])
  redis.call("ZADD", unfinished, ARGV[at + 1], id)
  redis.call("ZADD", ids, 0, id)
end
wake_nodes("queue")
return { "done" }
