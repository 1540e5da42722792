-- Define crons, or define them anew, all or none.
-- One that is due at the same times as before keeps its next due time, which may have come already and wait for its
-- jitter, for a node, or for a commit that is under way.
-- KEYS: crons state due followers wake
-- ARGV: for each cron: name, body (JSON), revision, due_ms or "", fires_ms or "", project/spider that it follows or "",
--       outcome that it waits for, is_paused ("1" or ""), expected revision or "-" for whatever it is
-- RETURNS: {"done", then the names of those that are other than before} | {"changed", name}
local crons, states, due, followers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local EACH = 9

local before = {}
for at = 1, #ARGV, EACH do
  local body = redis.call("HGET", crons, ARGV[at])
  before[at] = body and cjson.decode(body) or {}
  local expected = ARGV[at + 8]
  if expected ~= "-" and expected ~= (before[at].revision or "") then
    return { "changed", ARGV[at] }
  end
end

local function follow(spider, name, outcome)
  local names = cjson.decode(redis.call("HGET", followers, spider) or "{}")
  names[name] = outcome
  if next(names) then
    redis.call("HSET", followers, spider, cjson.encode(names))
  else
    redis.call("HDEL", followers, spider)
  end
end

local answer = { "done" }
for at = 1, #ARGV, EACH do
  local name, body, revision, due_ms, fires_ms, spider, outcome, is_paused, _ = unpack(ARGV, at, at + EACH - 1)
  local old = before[at]
  if old.revision ~= revision then
    answer[#answer + 1] = name
    redis.call("HSET", crons, name, body)
    redis.call("HSETNX", followers, "+" .. name, "")
    if old.follows then
      follow(old.follows, name, nil)
    end
    if spider ~= "" and is_paused == "" then
      follow(spider, name, outcome)
    end
    local state = cjson.decode(redis.call("HGET", states, name) or "{}")
    local is_timed_as_before = old.timing ~= nil and old.timing == cjson.decode(body).timing
    if not is_timed_as_before or not state.due_ms then
      state.due_ms, state.fires_ms = tonumber(due_ms), tonumber(fires_ms)
    end
    if state.due_ms then
      redis.call("ZADD", due, string.format("%.0f", state.fires_ms), name)
    else
      redis.call("ZREM", due, name)
    end
    if is_paused ~= "" then
      state.waits = nil
      redis.call("ZREM", due, name .. "\n")
    end
    redis.call("HSET", states, name, cjson.encode(state))
  end
end
if #answer > 1 then
  redis.call("PUBLISH", wake, "crons")
end
return answer
