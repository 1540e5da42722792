-- Give a node a place among those that change their address now, if fewer than the share of the live ones has one.
-- KEYS: redials nodes beats
-- ARGV: node, share (0 to 1), term_ms
-- RETURNS: {1 | 0, places taken, places}
local redials, nodes, beats = KEYS[1], KEYS[2], KEYS[3]
local node, share, term_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call("ZREMRANGEBYSCORE", redials, "-inf", now_ms)
local live = 0
local reports = redis.call("HGETALL", nodes)
for at = 1, #reports, 2 do
  local lease_ms = (cjson.decode(reports[at + 1]).lease_s or 15) * 1000
  if tonumber(redis.call("ZSCORE", beats, reports[at]) or 0) > now_ms - lease_ms then
    live = live + 1
  end
end
local places = math.max(1, math.floor(live * share + 1e-9))
local taken = redis.call("ZCARD", redials)
if taken >= places and not redis.call("ZSCORE", redials, node) then
  return { 0, taken, places }
end
redis.call("ZADD", redials, now_ms + term_ms, node)
redis.call("PEXPIRE", redials, math.max(term_ms, redis.call("PTTL", redials)))
return { 1, redis.call("ZCARD", redials), places }
