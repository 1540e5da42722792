-- Give a sink that nobody holds to one teller, under a token larger than any before; not one that has gone meanwhile.
-- KEYS: the alerts', then sink held
-- ARGV: name, holder, term_ms
-- RETURNS: {token, now_ms, revision, {field, value, ...}, {rule, silence, ...}, {held, due_ms, ...}} | nil
-- INCLUDES: sink_rules
local sink, held = KEYS[6], KEYS[7]
local name, holder, term_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if redis.call("HEXISTS", alerts, "since:" .. name) == 0 then
  return false
end
local left_ms = tonumber(redis.call("HGET", sink, "expires_ms") or 0) - now_ms
-- More than its whole term is left where the clock was set back: that lease would hold everybody up.
if left_ms > 0 and left_ms <= tonumber(redis.call("HGET", sink, "term_ms") or 0) then
  return false
end
-- The clock is the floor of the counter, so that a token is new even where its last writes were lost.
local last = tonumber(redis.call("GET", tokens) or "0")
local token = string.format("%.0f", math.max(last + 1, now_ms))
redis.call("SET", tokens, token)
redis.call("HSET", sink, "holder", holder)
return lease(name, sink, held, token, term_ms)
