-- Add to the seen set of a crawl, and begin the crawl if it is not known.
-- KEYS: the crawl's
-- ARGV: crawl, plan (JSON), order, seen kind, seeds kind, items kind, fingerprints, max deaths, bloom capacity of a
--       shard, bloom bits, counts of a Bloom filter's generations ("" for none), and of each record: form, root; or of
--       a part of a shard: generation, shard, offset, bytes
-- RETURNS: how many were new, or parts written
-- INCLUDES: crawl_seen
if not load_state() then
  begin(unpack(ARGV, 3, 10))
  st.start = "!"
end
redis.call("HSET", registry, ARGV[1], ARGV[2])

local count = 0
if ARGV[11] == "" then
  for at = 12, #ARGV, 2 do
    if is_new(ARGV[at], ARGV[at + 1]) then
      count = count + 1
    end
  end
  grow_packed()
else
  st.bloom, st.seen_count = ARGV[11], 0
  for each in string.gmatch(st.bloom, "%d+") do
    st.seen_count = st.seen_count + tonumber(each)
  end
  for at = 12, #ARGV, 4 do
    local shard = string.format("%s:%s:b%s:%s", seen, st.seen_epoch, ARGV[at], ARGV[at + 1])
    redis.call("SETRANGE", shard, ARGV[at + 2], ARGV[at + 3])
    count = count + 1
  end
end
save_state()
return count
