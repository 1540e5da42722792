-- Let a worker go: what it held goes back, no death counted; the last one of a crawl that is over clears it.
-- KEYS: the crawl's
-- ARGV: worker, token, is finished ("1"), persists ("1"), crawl
-- RETURNS: 1 when the crawl was cleared, else 0
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
local worker, is_finished, persists = ARGV[1], ARGV[3] == "1", ARGV[4] == "1"
local standing = standing_of(worker)
if not standing or standing.token ~= ARGV[2] or not load_state() then
  return 0
end
heard()
reclaim(worker, false)
redis.call("HDEL", standings, worker)
reclaim_lapsed("")

local is_over = is_finished
  and st.start == "!"
  and pending() == 0
  and in_all_hands() == 0
  and seeds_waiting() == 0
  and st.outgoing == 0
  and not anyone_has_more()
if is_over then
  for _, run in ipairs(redis.call("SMEMBERS", own_runs)) do
    redis.call("ZADD", runs, now_ms, ARGV[5] .. " " .. run)
  end
  note_end(worker)
end
if is_over and not persists and redis.call("ZCARD", workers) == 0 then
  clear_the_ended()
  return 1
end
-- Another still stands there, and may be dead: then nobody is left to clear the crawl, and the next run will.
st.ended, st.was_over = (is_over and not persists) and 1 or 0, is_over and 1 or 0
save_state()
return 0
