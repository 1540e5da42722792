-- Rename a key, so that nobody else finds it, unless one was set aside before.
-- KEYS: key aside
-- ARGV: none
-- RETURNS: 1 when it was renamed, else 0
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("EXISTS", KEYS[1]) == 0 then
  return 0
end
redis.call("RENAME", KEYS[1], KEYS[2])
return 1
