-- Note a step of telling a sink, whole, and keep its lease; nothing of it when another has taken the lease since.
-- KEYS: the alerts', then sink held
-- ARGV: name, token, term_ms, max_held, max_failed, step (JSON: cursor, hold: {{due_ms, held, body}}, drop, told, failed,
--       is_delivered, tries, pause_ms, error)
-- RETURNS: as take_sink | nil
-- INCLUDES: sink_rules
local sink, held = KEYS[6], KEYS[7]
local name, token, term_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local max_held, max_failed = tonumber(ARGV[4]), tonumber(ARGV[5])
if not is_ours(sink, token) then
  return false
end
local step = cjson.decode(ARGV[6])
local now = string.format("%.0f", now_ms)

local function give_up(body)
  redis.call("LPUSH", failed, now .. " " .. body)
  redis.call("LTRIM", failed, 0, max_failed - 1)
end

for _, each in ipairs(step.drop) do
  redis.call("ZREM", held, each)
end
for _, each in ipairs(step.hold) do
  if redis.call("ZCARD", held) < max_held then
    redis.call("ZADD", held, each[1], each[2])
  elseif not redis.call("ZSCORE", held, each[2]) then
    give_up(each[3])
  end
end
for _, each in ipairs(step.failed) do
  give_up(each)
end
for _, rule in ipairs(step.told) do
  redis.call("HSET", sink, "told:" .. rule, now)
end
if step.cursor then
  redis.call("HSET", sink, "cursor", step.cursor)
end
if step.is_delivered then
  redis.call("HINCRBY", sink, "delivered", 1)
  redis.call("HSET", sink, "delivered_ms", now)
end
if step.tries then
  redis.call("HSET", sink, "tries", string.format("%d", step.tries))
  redis.call("HSET", sink, "next_ms", string.format("%.0f", now_ms + step.pause_ms))
  if step.error then
    redis.call("HSET", sink, "error", step.error)
  else
    redis.call("HDEL", sink, "error")
  end
end
return lease(name, sink, held, token, term_ms)
