-- Set a list of items aside for whoever drains it, drop those that he has, and read the first of the others.
-- KEYS: items, aside, marks
-- ARGV: token for the next list, token and number of the last finished item, how many to read
-- RETURNS: token, number of the first item, items
-- FLAGS: allow-oom
local items, aside, marks = KEYS[1], KEYS[2], KEYS[3]
local finished = tonumber(ARGV[3])
local first = tonumber(redis.call("HGET", marks, "first") or "0")
if redis.call("HGET", marks, "token") == ARGV[2] and finished >= first then
  redis.call("LTRIM", aside, finished + 1 - first, -1)
  redis.call("HSET", marks, "first", finished + 1)
end
if redis.call("EXISTS", aside) == 0 then
  redis.call("DEL", marks)
  if redis.call("EXISTS", items) == 0 then
    return { "", 0, {} }
  end
  redis.call("RENAME", items, aside)
  redis.call("HSET", marks, "token", ARGV[1], "first", 0)
end
local wanted = tonumber(ARGV[4])
local found = wanted > 0 and redis.call("LRANGE", aside, 0, wanted - 1) or {}
return { redis.call("HGET", marks, "token"), tonumber(redis.call("HGET", marks, "first")), found }
