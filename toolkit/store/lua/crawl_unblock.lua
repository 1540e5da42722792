-- Put the entries that were set aside as blocked back to their place.
-- KEYS: the crawl's
-- ARGV: how many at most
-- RETURNS: how many went back
-- INCLUDES: crawl_rules
load_state()
local found = redis.call("HRANDFIELD", blocked, tonumber(ARGV[1]), "WITHVALUES")
local back = {}
for i = 1, #found, 2 do
  back[#back + 1] = { split_held(found[i + 1]) }
  redis.call("HDEL", blocked, found[i])
end
for _, each in ipairs(in_order_of_return(back)) do
  wait_in_line(each[1], each[2], true)
end
save_state()
return #back
