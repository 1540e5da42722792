-- Give a node the oldest questions that wait for it, each once; what nobody waits for any more is left out.
-- KEYS: questions
-- ARGV: how many at most
-- RETURNS: the questions (JSON)
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local taken = {}
while #taken < tonumber(ARGV[1]) do
  local each = redis.call("LPOP", KEYS[1])
  if not each then
    break
  end
  local waiting = cjson.decode(each)
  if waiting.until_ms > now_ms then
    taken[#taken + 1] = waiting.question
  end
end
return taken
