-- Bring entries into a crawl from outside, on the shelf where they were; begin the crawl if it is not known.
-- KEYS: the crawl's
-- ARGV: crawl, plan (JSON), order, seen kind, seeds kind, items kind, fingerprints, max deaths, bloom capacity of a
--       shard, bloom bits, and of each entry: shelf (new, pending, suspect, dead, blocked), member (new: the body),
--       score, why, filter, fingerprint, root
-- RETURNS: how many were new
-- INCLUDES: crawl_seen
if not load_state() then
  begin(unpack(ARGV, 3, 10))
  st.start = "!"
end
redis.call("HSET", registry, ARGV[1], ARGV[2])

local count = 0
for at = 11, #ARGV, 7 do
  local shelf, member, score, why = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local filter, form, root = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local is_wanted = filter == "n" or is_new(form, root) or filter == "k"
  if is_wanted then
    count = count + 1
    if shelf == "new" then
      wait_in_line(score, struct.pack(">I8", next_number()) .. "\0" .. member)
    elseif shelf == "suspect" then
      redis.call("ZADD", suspects, score, member)
    elseif shelf == "dead" then
      bury(score, member, why)
    elseif shelf == "blocked" then
      redis.call("HSET", blocked, string.sub(member, 1, 8), held_now(score, member))
    else
      wait_in_line(score, member)
    end
  end
end
grow_packed()
save_state()
return count
