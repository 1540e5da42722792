-- Keep an open rollout in waves and its egg, under the project's lock, unless another one of the project is open.
-- KEYS: lock rollouts rollouts:open rollouts:order egg digests changes
-- ARGV: token, project, id, rollout (JSON), open (JSON: id, digest), began_ms, digest, content, max_rollouts
-- RETURNS: "done" | "not_ours" | "open"
if redis.call("HGET", KEYS[1], "token") ~= ARGV[1] then
  return "not_ours"
end
local open = redis.call("HGET", KEYS[3], ARGV[2])
if open and open ~= ARGV[5] then
  return "open"
end
redis.call("SET", KEYS[5], ARGV[8])
redis.call("SADD", KEYS[6], ARGV[7])
redis.call("HSET", KEYS[2], ARGV[3], ARGV[4])
redis.call("HSET", KEYS[3], ARGV[2], ARGV[5])
redis.call("ZADD", KEYS[4], ARGV[6], ARGV[3])
redis.call("INCR", KEYS[7])

local open_ids = {}
for _, body in ipairs(redis.call("HVALS", KEYS[3])) do
  open_ids[cjson.decode(body)["id"]] = true
end
for _, id in ipairs(redis.call("ZRANGE", KEYS[4], 0, -1 - tonumber(ARGV[9]))) do
  if not open_ids[id] then
    redis.call("HDEL", KEYS[2], id)
    redis.call("ZREM", KEYS[4], id)
  end
end
return "done"
