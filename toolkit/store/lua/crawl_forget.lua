-- Forget a crawl of which nothing has been left for a while; whoever looks first notes since when.
-- KEYS: the crawl's, then drains
-- ARGV: crawl, for how long nothing must have been left, in milliseconds
-- RETURNS: 1 when it was forgotten, else 0
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local crawl, body = ARGV[1], redis.call("HGET", registry, ARGV[1])
if not body then
  return 0
end
for _, key in ipairs({ state, standings, workers, queue, seeds, suspects, dead, blocked, controls, limits }) do
  if redis.call("EXISTS", key) == 1 then
    return 0
  end
end
-- A stream that is drained is still there, unlike a list.
local kind = redis.call("TYPE", items).ok
local is_drained = kind == "stream" and redis.call("XLEN", items) == 0 and string.find(items, crawl, 1, true)
if kind ~= "none" and not is_drained then
  return 0
end
-- The next worker to join brings a plan without this.
local plan = cjson.decode(body)
if not plan.over_ms then
  plan.over_ms = now_ms
  redis.call("HSET", registry, crawl, cjson.encode(plan))
end
if now_ms - plan.over_ms < tonumber(ARGV[2]) then
  return 0
end
if is_drained then
  redis.call("UNLINK", items)
end
redis.call("UNLINK", KEYS[23])
return redis.call("HDEL", registry, crawl)
