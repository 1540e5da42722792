-- Replace what operators wish of a crawl, unless somebody else has done so since it was read.
-- KEYS: the crawl's
-- ARGV: the controls as they were read ("" for none), the new ones (JSON)
-- RETURNS: 1, or 0 when they are others by now
-- INCLUDES: crawl_rules
if (redis.call("GET", controls) or "") ~= ARGV[1] then
  return 0
end
redis.call("SET", controls, ARGV[2])
return 1
