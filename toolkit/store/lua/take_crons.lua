-- Hand firings that are due to a node, and keep them from others for as long as its lease.
-- KEYS: crons state due followers
-- ARGV: most, lease_ms
-- RETURNS: now_ms, milliseconds until the next one is due or "", then for each: its place, body (JSON), state (JSON),
--       when the cron's last good firing was due in milliseconds or ""
local crons, states, due, followers = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local answer = { string.format("%.0f", now_ms), "" }
for _, place in ipairs(redis.call("ZRANGEBYSCORE", due, "-inf", now_ms, "LIMIT", 0, ARGV[1])) do
  local name = string.match(place, "^[^\n]*")
  local body, state = redis.call("HGET", crons, name), redis.call("HGET", states, name) or "{}"
  local known = cjson.decode(state)
  local has_waited = place == name .. "\n"
  local is_over = (place == name and not known.due_ms) or (has_waited and not known.waits)
  -- What waits although the cron is paused was run by hand since then.
  if is_over or not body or (cjson.decode(body).is_paused and not has_waited) then
    redis.call("ZREM", due, place)
  else
    -- A lease only spares others the work: what a firing becomes is decided by whoever commits it first.
    redis.call("ZADD", due, now_ms + ARGV[2], place)
    answer[#answer + 1] = place
    answer[#answer + 1] = body
    answer[#answer + 1] = state
    answer[#answer + 1] = redis.call("HGET", followers, "+" .. name) or ""
  end
end
local first = redis.call("ZRANGE", due, 0, 0, "WITHSCORES")
if first[2] then
  answer[2] = string.format("%.0f", math.max(0, tonumber(first[2]) - now_ms))
end
return answer
