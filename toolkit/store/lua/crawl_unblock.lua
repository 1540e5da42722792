-- Put the entries that were set aside as blocked back to their place.
-- KEYS: the crawl's
-- ARGV: how many at most
-- RETURNS: how many went back
-- INCLUDES: crawl_rules
load_state()
local found = redis.call("HRANDFIELD", blocked, tonumber(ARGV[1]), "WITHVALUES")
for i = 1, #found, 2 do
  local score, member = split_held(found[i + 1])
  put_back(score, member)
  redis.call("HDEL", blocked, found[i])
end
save_state()
return #found / 2
