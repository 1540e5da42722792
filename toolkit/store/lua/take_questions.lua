-- Give a node the questions that wait for it, each once; what nobody waits for any more is left out.
-- KEYS: questions
-- ARGV: none
-- RETURNS: the questions (JSON)
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local taken = {}
for _, each in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
  local waiting = cjson.decode(each)
  if waiting.until_ms > now_ms then
    taken[#taken + 1] = waiting.question
  end
end
redis.call("DEL", KEYS[1])
return taken
