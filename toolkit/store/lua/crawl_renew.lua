-- Keep a worker's lease without a commit.
-- KEYS: the crawl's
-- ARGV: worker, token, ttl_ms
-- RETURNS: 1, or 0 when the lease has lapsed
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local standing = standing_of(ARGV[1])
if not standing or standing.token ~= ARGV[2] or string.find(standing.marks, "L", 1, true) then
  return 0
end
load_state()
heard()
save_state()
redis.call("ZADD", workers, "XX", now_ms + tonumber(ARGV[3]), ARGV[1])
set_standing(ARGV[1], standing.token, standing.number, standing.pages, standing.marks)
return 1
