-- Put entries of the dead list back into the queue, as if no worker had died with them.
-- KEYS: the crawl's
-- ARGV: the entries, or none for any 1,000
-- RETURNS: how many went back
-- INCLUDES: crawl_rules
load_state()
local entries = #ARGV > 0 and ARGV or redis.call("HRANDFIELD", dead, 1000)
local count = 0
for _, entry in ipairs(entries) do
  local text = redis.call("HGET", dead, entry)
  if text then
    local buried = cmsgpack.unpack(text)
    wait_in_line(buried[3], with_deaths(buried[4], 0))
    redis.call("HDEL", dead, entry)
    count = count + 1
  end
end
save_state()
return count
