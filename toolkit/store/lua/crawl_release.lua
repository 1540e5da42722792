-- Take back at once what a worker held whose process is gone, or whose node is lost.
-- KEYS: the crawl's
-- ARGV: worker, has died ("1": its process is known to be gone, and nobody had ended it)
-- RETURNS: how many entries went back, or -1 when nobody knows the worker
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local worker = ARGV[1]
local standing = standing_of(worker)
if not redis.call("ZSCORE", workers, worker) or not standing or not load_state() then
  redis.call("HDEL", homes, worker)
  return -1
end
local count = reclaim(worker, ARGV[2] == "1")
mark_lapsed(worker, standing)
if st.ended == 1 and pending() == 0 then
  -- The others have left a crawl that was over, and this one stood there still.
  note_end(worker)
end
save_state()
return count
