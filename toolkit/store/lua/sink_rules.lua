-- What every script about telling sinks shares; it is put before one that says `INCLUDES: sink_rules`.
-- A sink is a hash: `cursor` (the id of the last event that it needs no more), `token`, `holder`, `expires_ms` and
-- `term_ms` of its lease, `tries`, `next_ms` and `error` of the attempts that failed in a row, `delivered`, `delivered_ms`, and for each
-- rule `told:<rule>`, when it had its last message of it. All times are milliseconds since 1970.
-- KEYS: alerts silences tokens events failed
-- ARGV: the script's own
-- RETURNS: nothing
local alerts, silences, tokens, events, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local MAX_SHOWN = 200 -- of what is held and due

local function newest_event()
  local found = redis.call("XREVRANGE", events, "+", "-", "COUNT", 1)
  return found[1] and found[1][1] or "0-0"
end

-- Keep the lease of a sink for so long, and say all that its holder goes by.
local function lease(name, sink, held, token, term_ms)
  local expires = string.format("%.0f", now_ms + term_ms)
  redis.call("HSET", sink, "token", token, "expires_ms", expires, "term_ms", string.format("%.0f", term_ms))
  redis.call("HSETNX", sink, "cursor", redis.call("HGET", alerts, "since:" .. name) or newest_event())
  local revision = redis.call("HGET", alerts, "revision") or "0"
  local waiting = redis.call("ZRANGEBYSCORE", held, "-inf", now_ms, "WITHSCORES", "LIMIT", 0, MAX_SHOWN)
  if #waiting == 0 then
    waiting = redis.call("ZRANGE", held, 0, 0, "WITHSCORES")
  end
  local now = string.format("%.0f", now_ms)
  return { token, now, revision, redis.call("HGETALL", sink), redis.call("HGETALL", silences), waiting }
end

local function is_ours(sink, token)
  return redis.call("HGET", sink, "token") == token
end
