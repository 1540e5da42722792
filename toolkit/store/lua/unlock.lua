-- Give a rollout lock back, if the token still holds it; else change nothing.
-- KEYS: lock
-- ARGV: token
-- RETURNS: "done" | "not_ours"
if redis.call("HGET", KEYS[1], "token") ~= ARGV[1] then
  return "not_ours"
end

redis.call("DEL", KEYS[1])
return "done"
