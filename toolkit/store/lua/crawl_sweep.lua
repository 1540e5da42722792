-- Drop a part of the seen sets that were cleared, so that no server stands still for a large one.
-- KEYS: the crawl's
-- ARGV: how many keys to drop at most, how keys begin that no crawl has
-- RETURNS: 1 when there is more to drop, else 0
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local most, theirs = tonumber(ARGV[1]), ARGV[2]
local text = redis.call("LPOP", garbage)
if not text then
  return 0
end
local of, epoch, kind, level, split, bloom, from = unpack(cjson.decode(text))
from = from or 0
-- Somebody who may write here wants us to drop what he may not.
if string.sub(of, 1, #theirs) == theirs then
  return 1
end
local names = {}
if kind == "packed" then
  local last = 1024 * 2 ^ level + split - 1
  for address = from, math.min(from + most - 1, last) do
    names[#names + 1] = string.format("%s:%s:%.0f", of, epoch, address)
  end
  from = from + most
  if from <= last then
    redis.call("RPUSH", garbage, cjson.encode({ of, epoch, kind, level, split, bloom, from }))
  end
elseif kind == "bloom" then
  local generation = 0
  for _ in string.gmatch(bloom, "%d+") do
    for shard = 0, 4 ^ math.min(generation, 6) - 1 do
      names[#names + 1] = string.format("%s:%s:b%d:%.0f", of, epoch, generation, shard)
    end
    generation = generation + 1
  end
end
for at = 1, #names, 500 do
  redis.call("UNLINK", unpack(names, at, math.min(at + 499, #names)))
end
return redis.call("LLEN", garbage) > 0 and 1 or 0
