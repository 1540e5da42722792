-- Put a release's signed text in the place of the one that was read, there and where it is active, under the lock.
-- KEYS: lock releases active changes
-- ARGV: token, project, version, former (JSON), signed (JSON)
-- RETURNS: "done" | "not_ours" | "changed"
local lock, releases, active = KEYS[1], KEYS[2], KEYS[3]
local token, project, version, former, signed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if redis.call("HGET", lock, "token") ~= token then
  return "not_ours"
end
if redis.call("HGET", releases, version) ~= former then
  return "changed"
end

redis.call("HSET", releases, version, signed)
-- What is active is the very text that is recorded.
if redis.call("HGET", active, project) == former then
  redis.call("HSET", active, project, signed)
end
redis.call("INCR", KEYS[4])
return "done"
