-- Leave a question with a node, wake it, and keep a place for the answer.
-- KEYS: questions asker wake
-- ARGV: node, question (JSON, without its end), timeout_ms, asker_ms, most questions that may wait
-- RETURNS: 1 | 0 when too many wait
local questions, asker, wake = KEYS[1], KEYS[2], KEYS[3]
local timeout_ms = tonumber(ARGV[3])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local waiting = redis.call("LRANGE", questions, 0, -1)
if #waiting >= tonumber(ARGV[5]) then
  -- Of a node that is away: what nobody waits for any more makes room.
  redis.call("DEL", questions)
  for _, each in ipairs(waiting) do
    if cjson.decode(each).until_ms > now_ms then
      redis.call("RPUSH", questions, each)
    end
  end
  if redis.call("LLEN", questions) >= tonumber(ARGV[5]) then
    redis.call("PEXPIRE", questions, timeout_ms)
    return 0
  end
end
local kept_ms = math.max(timeout_ms, redis.call("PTTL", questions))
redis.call("RPUSH", questions, cjson.encode({ until_ms = now_ms + timeout_ms, question = ARGV[2] }))
redis.call("PEXPIRE", questions, kept_ms)
redis.call("SET", asker, "1", "PX", ARGV[4])
redis.call("PUBLISH", wake, "?" .. ARGV[1])
return 1
