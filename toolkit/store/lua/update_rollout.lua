-- Replace what is known of a rollout in waves, under the project's lock; a closed one no longer keeps its egg.
-- KEYS: lock rollouts rollouts:open changes
-- ARGV: token, project, id, rollout (JSON), open (JSON: id, digest), is_open (0 or 1)
-- RETURNS: "done" | "not_ours"
if redis.call("HGET", KEYS[1], "token") ~= ARGV[1] then
  return "not_ours"
end
redis.call("HSET", KEYS[2], ARGV[3], ARGV[4])
if ARGV[6] == "0" and redis.call("HGET", KEYS[3], ARGV[2]) == ARGV[5] then
  redis.call("HDEL", KEYS[3], ARGV[2])
  redis.call("INCR", KEYS[4])
end
return "done"
