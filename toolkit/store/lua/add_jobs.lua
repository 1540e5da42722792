-- Remember new jobs, all or none.
-- KEYS: jobs unfinished final ids beats
-- ARGV: for each job: id, score, is_final ("1" or "0"), job (JSON)
-- RETURNS: {"done", how many jobs in a final state there are, how many plug-in nodes} | {"known", id} with the first job
-- that is known already
local jobs, unfinished, final, ids, beats = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

for at = 1, #ARGV, 4 do
  if redis.call("HEXISTS", jobs, ARGV[at]) == 1 then
    return { "known", ARGV[at] }
  end
end

for at = 1, #ARGV, 4 do
  local id, score, is_final, job = ARGV[at], ARGV[at + 1], ARGV[at + 2] == "1", ARGV[at + 3]
  redis.call("HSET", jobs, id, job)
  redis.call("ZADD", is_final and final or unfinished, score, id)
  redis.call("ZADD", ids, 0, id)
end
return { "done", redis.call("ZCARD", final), redis.call("ZCARD", beats) }
