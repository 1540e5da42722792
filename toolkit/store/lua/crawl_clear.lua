-- Remove a crawl: its entries, its seen set, and what is known of it; live workers forbid it unless it is forced.
-- KEYS: the crawl's, then drains
-- ARGV: crawl, force ("1"), keep seen ("1"), keep items ("1")
-- RETURNS: the live workers that forbid it; none when it was done
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local crawl, keeps_seen = ARGV[1], ARGV[3] == "1"
local live = redis.call("ZRANGEBYSCORE", workers, "(" .. now_ms, "+inf")
if #live > 0 and ARGV[2] ~= "1" then
  return live
end
load_state()
for _, worker in ipairs(redis.call("HKEYS", standings)) do
  redis.call("UNLINK", hands .. worker)
  redis.call("HDEL", homes, worker)
  mark_lapsed(worker, standing_of(worker))
end
for _, domain in ipairs(redis.call("ZRANGE", due, 0, -1)) do
  redis.call("UNLINK", domains .. domain)
end
drop_all_staged()
st.outgoing = 0
redis.call("UNLINK", own_runs)
keep_standings_for_a_day()
redis.call("UNLINK", queue, seeds, suspects, dead, blocked, starts, controls, limits, due, budgets, rate, workers)
if ARGV[4] ~= "1" then
  redis.call("UNLINK", items, KEYS[23])
end
if keeps_seen and st.order ~= "" then
  for _, name in ipairs({ "parked", "pages", "items", "duplicates", "idle_since", "limited" }) do
    st[name] = 0
  end
  for _, name in ipairs({ "start", "suspect_of", "suspect", "hungry" }) do
    st[name] = ""
  end
  save_state()
else
  set_aside_seen()
  redis.call("UNLINK", state, seen)
  redis.call("HDEL", registry, crawl)
end
return {}
