-- Make a recorded release the active one under the rollout lock, with holders, history and an event, in one step.
-- KEYS: lock releases active holders history changes events
-- ARGV: token, project, version, nodes (JSON), rollout (JSON), max_history, max_events, kind of event, about (JSON)
-- RETURNS: "done" | "not_ours" | "unknown"
local lock, releases, active, holders, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, project, version, nodes, rollout = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local max_history = tonumber(ARGV[6])

if redis.call("HGET", lock, "token") ~= token then
  return "not_ours"
end
local release = redis.call("HGET", releases, version)
if not release then
  return "unknown"
end

local before = redis.call("HGET", active, project)
redis.call("HSET", active, project, release)
redis.call("HSET", holders, version, nodes)
redis.call("INCR", KEYS[6])
-- The same rollout again is a caller who lost the answer: it is already in the history.
if redis.call("LINDEX", history, 0) ~= rollout then
  redis.call("LPUSH", history, rollout)
  redis.call("LTRIM", history, 0, max_history - 1)
  local about = cjson.decode(ARGV[9])
  about.was = before and cjson.decode(before).version
  local told = { "kind", ARGV[8], "subject", project .. " " .. version, "about", cjson.encode(about) }
  redis.call("XADD", KEYS[7], "MAXLEN", "~", ARGV[7], "*", unpack(told))
end
return "done"
