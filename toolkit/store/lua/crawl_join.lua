-- Let a worker take part in a crawl, under a lease and a token greater than any before it; refuse what is another's.
-- KEYS: the crawl's
-- ARGV: worker, ttl_ms, flush ("1"), is new life ("1"), crawl, plan (JSON), order, seen kind, seeds kind, items kind,
--       fingerprints, max deaths, bloom capacity of a shard, bloom bits, run, limits (domain, text ...)
-- RETURNS: {"refused", what, found, wanted} | {"over"} | {"wait", ms} | {"joined", token, pending, start, controls or "", is first}
-- INCLUDES: crawl_rules
local STANDINGS_KEPT = 100
local worker, ttl_ms, crawl, plan = ARGV[1], tonumber(ARGV[2]), ARGV[5], ARGV[6]
local wants_flush, is_new_life = ARGV[3] == "1", ARGV[4] == "1"
local wanted = {
  order = ARGV[7], seen = ARGV[8], seeds = ARGV[9], items_kind = ARGV[10], fingerprints = ARGV[11],
}

-- A project is known by the name that nodes have for it; one that no node runs, by its BOT_NAME.
local function is_same_project(one, other)
  if one.project == "" or other.project == "" or one.project == other.project then
    return true
  end
  local bot, other_bot = one.bot or "", other.bot or ""
  local are_both_deployed = bot ~= "" and other_bot ~= ""
  return not are_both_deployed and (bot ~= "" and bot or one.project) == (other_bot ~= "" and other_bot or other.project)
end

local known_plan = redis.call("HGET", registry, crawl)
if known_plan then
  local other, mine = cjson.decode(known_plan), cjson.decode(plan)
  local is_begun = redis.call("EXISTS", state) == 1
  if other.spider ~= mine.spider then
    return { "refused", "spider", other.spider, mine.spider }
  end
  if mine.is_named then
    plan = with_owner_of(other, mine, is_begun)
  else
    if not is_same_project(other, mine) then
      return { "refused", "project", other.project, mine.project }
    end
    if is_begun and (other.digest or "") ~= "" and other.digest ~= mine.digest then
      return { "refused", "arguments", other.arguments, mine.arguments }
    end
  end
  if other.keys.requests ~= mine.keys.requests and redis.call("EXISTS", other.keys.requests .. ":state") == 1 then
    return { "refused", "requests key", other.keys.requests, mine.keys.requests }
  end
end

local function type_of(key)
  return redis.call("TYPE", key).ok
end

-- All that may refuse comes first: who is refused has changed nothing.
local is_there = load_state()
local is_empty = not is_there or (pending() == 0 and in_all_hands() == 0)
local is_of_this_run = is_there and is_of_run(ARGV[15])
-- What its own run has left is to be done still.
wants_flush = wants_flush and not is_of_this_run
if not is_there then
  st.seeds = wanted.seeds
end
local is_anothers = is_there and not is_of_this_run and redis.call("EXISTS", own_runs) == 1
local was_over = is_new_life and ARGV[15] ~= "" and redis.call("ZSCORE", runs, crawl .. " " .. ARGV[15])
if was_over then
  -- Another run may be under way by now. And something may have come after it was over: seeds, or what was put back.
  if is_anothers or (is_empty and seeds_waiting() == 0) then
    return { "over" }
  end
end
local before = not is_new_life and standing_of(worker)
if before and (not is_there or tonumber(st.seen_epoch) > tonumber(before.token)) then
  -- The crawl that this worker was part of has ended without it; what there is now is another run.
  return { "over" }
end
if is_there and heard() then
  -- Also where it is refused: the lease of who is dead is over in time, whoever asks.
  save_state()
end
local is_first = #redis.call("ZRANGEBYSCORE", workers, "(" .. now_ms, "+inf", "LIMIT", 0, 1) == 0
local is_flushed = wants_flush and is_first
-- Its last worker left while one that was dead still stood there, or died before it could say that all is done.
local is_done = is_anothers and ARGV[15] ~= "" and is_first and st.start == "!" and seeds_waiting() == 0
is_done = is_done and redis.call("EXISTS", standings) == 1 and not cjson.decode(plan).persists
local is_ended = is_there and is_new_life and (st.ended == 1 or is_done) and is_empty and not is_flushed
if is_ended then
  is_first = true
end
local is_theirs = wanted.seen == "set" and wanted.fingerprints == "scrapy-redis" and type_of(seen) == "set"
if is_there and st.crawl ~= "" and st.crawl ~= crawl then
  return { "refused", "crawl", st.crawl, crawl }
end
for name, key in pairs({ seeds = seeds, items = items }) do
  local found, mine = type_of(key), wanted[name == "seeds" and "seeds" or "items_kind"]
  if found ~= "none" and mine ~= "none" and found ~= mine then
    return { "refused", name, found, mine }
  end
end
local function is_of_another_kind(name)
  return st[name] ~= wanted[name] and st[name] ~= "none" and wanted[name] ~= "none"
end

local function differs()
  return st.order ~= wanted.order
    or st.seen ~= wanted.seen
    or st.fingerprints ~= wanted.fingerprints
    or is_of_another_kind("seeds")
    or is_of_another_kind("items_kind")
end

-- What would begin anew, or be refused because of others, waits until those that may be alive had the time to say so.
if is_there and is_new_life and not is_first and (wants_flush or differs() or is_empty and seeds_waiting() == 0) then
  local wait_ms = doubtful_ms()
  if wait_ms > 0 then
    save_state()
    -- It asks more often than that: nobody else may be there to show that Redis is.
    return { "wait", math.ceil(math.min(wait_ms, st.ttl_ms / 4)) }
  end
end

-- Workers that live keep their kinds of keys; one without items may come to any.
if is_there and not is_flushed and not is_first then
  for name, kind in pairs({ seeds = "seeds", items = "items_kind" }) do
    if is_of_another_kind(kind) then
      return { "refused", name, st[kind], wanted[kind] }
    end
  end
end
if is_there and not is_flushed then
  local is_free = is_empty and is_first
  if st.order ~= wanted.order and not is_free then
    return { "refused", "order", st.order, wanted.order }
  end
  for _, name in ipairs({ "seen", "fingerprints" }) do
    if st[name] ~= wanted[name] and (st.seen_count > 0 or not is_free) then
      return { "refused", name, st[name], wanted[name] }
    end
  end
elseif not is_flushed then
  if type_of(queue) ~= "none" then
    return { "refused", "foreign queue", type_of(queue), "" }
  end
  if type_of(seen) ~= "none" and not is_theirs then
    return { "refused", "foreign seen set", type_of(seen), "" }
  end
end

if is_there then
  reclaim_lapsed("")
  -- What the same name held in a life before this one goes back first.
  if redis.call("ZSCORE", workers, worker) then
    reclaim(worker, not is_minded(worker))
  end
end
if is_ended then
  for _, other in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    mark_lapsed(other, standing_of(other))
    redis.call("ZREM", workers, other)
    redis.call("HDEL", homes, other)
  end
  clear_the_ended()
  is_there = load_state()
end
if is_flushed then
  set_aside_seen()
  for _, domain in ipairs(redis.call("ZRANGE", due, 0, -1)) do
    redis.call("UNLINK", domains .. domain)
  end
  for _, held in ipairs(redis.call("HKEYS", standings)) do
    redis.call("UNLINK", hands .. held)
  end
  drop_staging()
  redis.call("UNLINK", queue, seen, state, own_runs, suspects, dead, blocked, starts, due, budgets, rate)
  is_there, is_empty = load_state(), true
end
if is_there then
  st.order, st.seen, st.fingerprints = wanted.order, wanted.seen, wanted.fingerprints
else
  begin(unpack(ARGV, 7, 14))
  if is_theirs and not is_flushed then
    st.seen_count = redis.call("SCARD", seen)
  end
end
-- What was acknowledged is delivered, whatever becomes of the crawl.
st.outgoing = redis.call("LLEN", outgoing)
if (is_first and st.outgoing == 0) or wanted.items_kind ~= "none" then
  st.items_kind = wanted.items_kind
end
st.ttl_ms, st.heard_ms = is_first and ttl_ms or math.max(st.ttl_ms, ttl_ms), now_ms
st.crawl, st.seeds, st.max_deaths = crawl, wanted.seeds, tonumber(ARGV[12])
-- The standings of workers that died long ago are of no use any more.
if redis.call("HLEN", standings) > STANDINGS_KEPT then
  for _, other in ipairs(redis.call("HKEYS", standings)) do
    local standing = standing_of(other)
    if string.find(standing.marks, "L", 1, true) and tonumber(standing.at_ms) < now_ms - 86400000 then
      redis.call("HDEL", standings, other)
    end
  end
end

if was_over and not is_there then
  -- What came after its end; its start() was run.
  st.start = "!"
elseif is_new_life and is_first and is_empty and not (is_of_this_run and st.start == "!" and st.was_over == 0) then
  -- A new run of the crawl: start() goes again, and may bring again what it brought before.
  st.start = ""
  redis.call("UNLINK", starts, own_runs)
end
add_run(ARGV[15])
if redis.call("EXISTS", limits) == 0 and #ARGV > 15 then
  for at = 16, #ARGV, 2 do
    redis.call("HSET", limits, ARGV[at], ARGV[at + 1])
  end
  st.limited = 1
end
local start = "done"
if st.start == "" then
  st.start = worker
end
if st.start ~= "!" then
  start = st.start == worker and "yours" or "wait"
end

local token = string.format("%.0f", next_number())
st.idle_since = 0
redis.call("PERSIST", standings)
set_standing(worker, token, 0, 0, "-")
redis.call("ZADD", workers, now_ms + ttl_ms, worker)
redis.call("HSET", registry, crawl, plan)
redis.call("HSET", homes, worker, crawl)
local left = pending()
save_state()
return { "joined", token, left, start, redis.call("GET", controls) or "", is_first and 1 or 0 }
