-- Put entries of the dead list back into the queue, as if no worker had died with them.
-- KEYS: the crawl's
-- ARGV: the entries, or none for all
-- RETURNS: how many went back
-- INCLUDES: crawl_rules
load_state()
local entries = #ARGV > 0 and ARGV or redis.call("HKEYS", dead)
local back = {}
for _, entry in ipairs(entries) do
  local text = redis.call("HGET", dead, entry)
  if text then
    local buried = cmsgpack.unpack(text)
    back[#back + 1] = { buried[3], with_deaths(buried[4], 0) }
    redis.call("HDEL", dead, entry)
  end
end
for _, each in ipairs(in_order_of_return(back)) do
  wait_in_line(each[1], each[2], true)
end
save_state()
return #back
