-- Remember a release under the rollout lock; one that is known with the same bytes stays as it was.
-- KEYS: lock releases projects
-- ARGV: token, project, version, digest, release (JSON)
-- RETURNS: "done" | "not_ours" | "other_bytes"
local lock, releases, projects = KEYS[1], KEYS[2], KEYS[3]
local token, project, version, digest, release = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- The lock expires by Redis' own clock (PEXPIREAT), and no key expires while a script runs.
if redis.call("HGET", lock, "token") ~= token then
  return "not_ours"
end

local known = redis.call("HGET", releases, version)
if known then
  local readable, body = pcall(cjson.decode, known)
  if readable and type(body) == "table" and body["digest"] == digest then
    return "done"
  end
  return "other_bytes"
end

redis.call("HSET", releases, version, release)
redis.call("SADD", projects, project)
return "done"
