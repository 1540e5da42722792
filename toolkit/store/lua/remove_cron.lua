-- Take a cron away with what is remembered of it; its jobs stay.
-- KEYS: crons state due followers history
-- ARGV: name
-- RETURNS: 1 | 0 when there was none
-- FLAGS: allow-oom
local crons, states, due, followers, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local name = ARGV[1]
local body = redis.call("HGET", crons, name)
if not body then
  return 0
end
local spider = cjson.decode(body).follows
if spider then
  local names = cjson.decode(redis.call("HGET", followers, spider) or "{}")
  names[name] = nil
  if next(names) then
    redis.call("HSET", followers, spider, cjson.encode(names))
  else
    redis.call("HDEL", followers, spider)
  end
end
redis.call("HDEL", followers, "+" .. name)
redis.call("HDEL", crons, name)
redis.call("HDEL", states, name)
redis.call("ZREM", due, name, name .. "\n")
redis.call("DEL", history)
return 1
