-- Remove a release under the rollout lock, unless it is the active one; one that is not known is as good as removed.
-- KEYS: lock releases active holders projects changes
-- ARGV: token, project, version
-- RETURNS: "done" | "not_ours" | "is_active"
local lock, releases, active, holders, projects = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, project, version = ARGV[1], ARGV[2], ARGV[3]

if redis.call("HGET", lock, "token") ~= token then
  return "not_ours"
end
-- Making a release active copied its very text.
local release = redis.call("HGET", releases, version)
if release and redis.call("HGET", active, project) == release then
  return "is_active"
end

redis.call("HDEL", releases, version)
redis.call("HDEL", holders, version)
redis.call("INCR", KEYS[6])
if redis.call("EXISTS", releases) == 0 then
  redis.call("SREM", projects, project)
end
return "done"
