-- Replace the records of known jobs; a final state is not replaced by one that is not, nor a queued job at all.
-- KEYS: jobs unfinished final
-- ARGV: for each job: id, score, is_final ("1" or "0"), job (JSON)
-- RETURNS: how many were replaced
local jobs, unfinished, final = KEYS[1], KEYS[2], KEYS[3]
local replaced = 0

for at = 1, #ARGV, 4 do
  local id, score, is_final, job = ARGV[at], ARGV[at + 1], ARGV[at + 2] == "1", ARGV[at + 3]
  local was_final = redis.call("ZSCORE", final, id)
  local known = redis.call("HGET", jobs, id)
  -- A job of the queue is written by its owner's scripts alone.
  if known and not cjson.decode(known).line and (is_final or not was_final) then
    redis.call("HSET", jobs, id, job)
    if is_final then
      redis.call("ZREM", unfinished, id)
    end
    redis.call("ZADD", is_final and final or unfinished, score, id)
    replaced = replaced + 1
  end
end
return replaced
