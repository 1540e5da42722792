-- Append a rollout to the history, once, and change nothing else.
-- KEYS: history
-- ARGV: rollout (JSON), max_history
-- RETURNS: "done"
local history, rollout, max_history = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- The same rollout again is a caller who lost the answer: it is already in the history.
if redis.call("LINDEX", history, 0) ~= rollout then
  redis.call("LPUSH", history, rollout)
  redis.call("LTRIM", history, 0, max_history - 1)
end
return "done"
