-- What every script of a crawl shares, its keys, clock and state, and the places where an entry can be.
-- KEYS: the crawl's
-- ARGV: each script's own
-- RETURNS: nothing by itself; it stands in front of the scripts that include it
--
-- A member is an entry as it lies in the queue: eight bytes of id, one byte (how many workers died with it, and 128 for
-- a seed), and the body. In a worker's hands it is a field of a hash: id -> "<score> <since, ms> <member>".
local queue, seen, seeds, items, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local workers, standings, hands, suspects, dead = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local blocked, starts, controls, limits, due = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local domains, budgets, rate, garbage = KEYS[16], KEYS[17], KEYS[18], KEYS[19]
local registry, runs, homes = KEYS[20], KEYS[21], KEYS[22]
local own_runs = queue .. ":runs"
local SEED = 128
local SUSPECT_AFTER = 2 -- as in model/crawls.py

local clock = redis.call("TIME")
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)

local NUMBERS = {
  "seq", "seen_count", "seen_level", "seen_split", "parked", "pages", "items", "duplicates", "idle_since", "created_ms",
  "limited", "max_deaths", "hungry_ms", "bloom_cap", "bloom_bits", "ended", "was_over", "commits", "heard_ms", "terms_ms",
  "ttl_ms", "outgoing",
}
local TEXTS = {
  "order", "seen", "seeds", "items_kind", "start", "suspect_of", "crawl", "hungry", "seen_epoch", "bloom",
  "fingerprints",
}
local st, loaded = {}, false

local function load_state()
  local names = {}
  for i, name in ipairs(NUMBERS) do
    names[i] = name
  end
  for _, name in ipairs(TEXTS) do
    names[#names + 1] = name
  end
  local found = redis.call("HMGET", state, unpack(names))
  for i, name in ipairs(NUMBERS) do
    st[name] = tonumber(found[i]) or 0
  end
  for i, name in ipairs(TEXTS) do
    st[name] = found[#NUMBERS + i] or ""
  end
  loaded = {}
  for name, value in pairs(st) do
    loaded[name] = value
  end
  return st.order ~= ""
end

-- Begin a crawl that is not known here.
local function begin(order, seen_kind, seeds_kind, items_kind, fingerprints, max_deaths, bloom_cap, bloom_bits)
  st.order, st.seen, st.seeds, st.items_kind, st.fingerprints = order, seen_kind, seeds_kind, items_kind, fingerprints
  st.max_deaths, st.bloom_cap, st.bloom_bits = tonumber(max_deaths), tonumber(bloom_cap), tonumber(bloom_bits)
  st.created_ms = now_ms
  st.seq = math.max(st.seq + 1, clock[1] * 1000000 + clock[2])
  st.seen_epoch = string.format("%.0f", st.seq)
  st.limited = redis.call("EXISTS", limits)
end

local function save_state()
  local changed = {}
  for name, value in pairs(st) do
    if loaded[name] ~= value then
      changed[#changed + 1] = name
      changed[#changed + 1] = type(value) == "number" and string.format("%.0f", value) or value
    end
  end
  if #changed > 0 then
    redis.call("HSET", state, unpack(changed))
  end
end

-- By the clock, and rising: an id or a token is given out once, even when Redis came back with an older state.
local function next_number()
  st.seq = math.max(st.seq + 1, clock[1] * 1000000 + clock[2])
  return st.seq
end

local function host_of(member)
  local place = string.match(member, "://([%w%.%-_:@%[%]%%+~!$&'()*,;=]+)", 10)
  if not place then
    return ""
  end
  place = string.match(place, "([^@]*)$")
  return string.lower(string.match(place, "^(%[.-%])") or string.match(place, "^([^:]*)"))
end

-- The budget of a domain: how many a second (0: any), how many at once (0: any); nil when it has none.
local budget_of_domain = {}
local function budget_of(domain)
  local known = budget_of_domain[domain]
  if known == nil then
    local own = redis.call("HMGET", limits, domain, "*")
    local text = own[1] or own[2]
    known = false
    if text and domain ~= "" then
      local per_second, at_once = string.match(text, "^(%S+) (%S+)$")
      known = { tonumber(per_second), tonumber(at_once) }
    end
    budget_of_domain[domain] = known
  end
  return known or nil
end

local function pop_from(key, count)
  return redis.call(st.order == "lifo" and "ZPOPMAX" or "ZPOPMIN", key, count)
end

local function is_seed(member)
  return (string.byte(member, 9) or 0) >= SEED
end

-- Put an entry where it waits, at its place by score and id: in the queue, or with a budget in that of its domain.
local function wait_in_line(score, member)
  if st.order ~= "priority" then
    score = "0"
  end
  if st.limited == 1 and not is_seed(member) then
    local domain = host_of(member)
    if budget_of(domain) or redis.call("ZSCORE", due, domain) then
      redis.call("ZADD", domains .. domain, score, member)
      st.parked = st.parked + 1
      redis.call("ZADD", due, "NX", now_ms, domain)
      return
    end
  end
  redis.call("ZADD", queue, score, member)
end

-- One slot of the entry's domain is free again.
local function free_slot(member)
  if st.limited == 1 and not is_seed(member) then
    local domain = host_of(member)
    if redis.call("HEXISTS", budgets, "#" .. domain) == 1 then
      if redis.call("HINCRBY", budgets, "#" .. domain, -1) <= 0 then
        redis.call("HDEL", budgets, "#" .. domain)
      end
      local score = redis.call("ZSCORE", due, domain)
      if score and tonumber(score) > now_ms then
        redis.call("ZADD", due, now_ms, domain)
      end
    end
  end
end

local function split_held(value)
  local score, since, begin = string.match(value, "^(%S+) (%d+) ()")
  return score, string.sub(value, begin), tonumber(since)
end

local since = string.format(" %.0f ", now_ms)
local function held_now(score, member)
  return score .. since .. member
end

-- Put an entry into a worker's hands, and count it for its domain.
local function hold(hand, score, member)
  redis.call("HSET", hand, string.sub(member, 1, 8), held_now(score, member))
  if st.limited == 1 and not is_seed(member) then
    local domain = host_of(member)
    local budget = budget_of(domain)
    if budget and budget[2] > 0 then
      redis.call("HINCRBY", budgets, "#" .. domain, 1)
    end
  end
end

local function with_deaths(member, deaths)
  local seed = is_seed(member) and SEED or 0
  return string.sub(member, 1, 8) .. string.char(math.min(deaths, SEED - 1) + seed) .. string.sub(member, 10)
end

local function put_back(score, member)
  if (string.byte(member, 9) or 0) % SEED >= SUSPECT_AFTER then
    redis.call("ZADD", suspects, score, member)
  else
    wait_in_line(score, member)
  end
end

local function bury(score, member, why)
  local buried = cmsgpack.pack({ why, string.format("%.0f", now_ms), score, member })
  redis.call("HSET", dead, string.sub(member, 1, 8), buried)
end

-- The items of a page that brings very many go ahead of its end, in parts: they wait in a list of its entry's own, and
-- are delivered once it is acknowledged, some at a time, so that nobody waits for a million of them. `staging` counts
-- them by entry; `outgoing` lists the entries that are acknowledged, as "<id> <how many are delivered>".
local staged, staging, outgoing = queue .. ":staged:", queue .. ":staging", queue .. ":outgoing"

local function id_of(entry)
  return string.format("%.0f", (struct.unpack(">I8", entry)))
end

local function drop_staged(entry)
  if redis.call("HDEL", staging, entry) == 1 then
    redis.call("UNLINK", staged .. id_of(entry))
  end
end

-- Drop what went ahead of pages that were not acknowledged.
local function drop_staging()
  for _, entry in ipairs(redis.call("HKEYS", staging)) do
    drop_staged(entry)
  end
end

local function drop_all_staged()
  drop_staging()
  for _, each in ipairs(redis.call("LRANGE", outgoing, 0, -1)) do
    redis.call("UNLINK", staged .. string.match(each, "^%d+"))
  end
  redis.call("UNLINK", outgoing)
end

local function items_type()
  return st.items_kind == "list" and "list" or "stream"
end

local function deliver(key, body)
  if st.items_kind == "list" then
    redis.call("RPUSH", items, body)
  else
    redis.call("XADD", items, "*", "k", key, "v", body)
  end
end

-- Deliver some of the items that wait for it, as many as take a few milliseconds; return how many.
local DELIVERED_AT_ONCE, BYTES_AT_ONCE = 1000, 4 * 2 ^ 20
local function deliver_staged()
  local done, bytes = 0, 0
  if st.outgoing == 0 then
    return 0
  end
  local there = redis.call("TYPE", items).ok
  if there ~= "none" and there ~= items_type() then
    return 0
  end
  while st.outgoing > 0 and done < DELIVERED_AT_ONCE and bytes < BYTES_AT_ONCE do
    local id, moved = string.match(redis.call("LINDEX", outgoing, 0) or "", "^(%d+) (%d+)$")
    local found = id and redis.call("LPOP", staged .. id, 50) or {}
    for i, body in ipairs(found) do
      deliver(id .. "-" .. string.format("%.0f", moved + i - 1), body)
      bytes = bytes + #body
    end
    done = done + #found
    if found[1] then
      redis.call("LSET", outgoing, 0, id .. " " .. string.format("%.0f", moved + #found))
    else
      redis.call("LPOP", outgoing)
      st.outgoing = redis.call("LLEN", outgoing)
    end
  end
  return done
end

-- Take a worker's standing away, and put what it held back; each of its entries counts one more death if it died, up to
-- so many where that is not sure.
local function reclaim(worker, has_died, most)
  local held = redis.call("HGETALL", hands .. worker)
  local is_any_staged = redis.call("EXISTS", staging) == 1
  for i = 2, #held, 2 do
    if is_any_staged then
      drop_staged(held[i - 1])
    end
    local score, member = split_held(held[i])
    free_slot(member)
    local deaths = (string.byte(member, 9) or 0) % SEED
    deaths = has_died and math.max(deaths, math.min(deaths + 1, most or SEED)) or deaths
    member = with_deaths(member, deaths)
    if deaths >= st.max_deaths then
      bury(score, member, "its workers died, " .. deaths .. " times")
    else
      put_back(score, member)
    end
  end
  redis.call("DEL", hands .. worker)
  redis.call("ZREM", workers, worker)
  redis.call("HDEL", homes, worker)
  if st.start == worker then
    st.start = ""
  end
  if st.suspect_of == worker then
    st.suspect_of = ""
  end
  if st.hungry == worker then
    st.hungry = ""
  end
  return #held / 2
end

-- A standing is "<token> <number> <pages> <last commit, ms> <marks>"; marks: L lapsed, M has more, A alone with a
-- suspect, - none.
local function standing_of(worker)
  local text = redis.call("HGET", standings, worker)
  if not text then
    return nil
  end
  local token, number, pages, at_ms, marks = string.match(text, "^(%S+) (%S+) (%S+) (%S+) (%S+)$")
  return { token = token, number = tonumber(number), pages = tonumber(pages), at_ms = at_ms, marks = marks }
end

local function mark_lapsed(worker, standing)
  local before = string.format("%s %.0f %.0f %s", standing.token, standing.number, standing.pages, standing.at_ms)
  redis.call("HSET", standings, worker, before .. " L")
end

local function set_standing(worker, token, number, pages, marks)
  local text = string.format("%s %.0f %.0f %.0f %s", token, number, pages, now_ms, marks)
  redis.call("HSET", standings, worker, text)
end

-- A worker that was frozen while its crawl was cleared shall find, a day later still, that its lease is over: else it
-- would take the crawl for rolled back, and bring back what others have done.
local function keep_standings_for_a_day()
  redis.call("EXPIRE", standings, 86400)
end

local function set_aside_seen()
  if st.seen_epoch ~= "" then
    redis.call("RPUSH", garbage, cjson.encode({ seen, st.seen_epoch, st.seen, st.seen_level, st.seen_split, st.bloom }))
  end
end

-- Clear a crawl that is over; what is dead or blocked stays for the operator, seeds and items for whoever they are for.
local function clear_the_ended()
  set_aside_seen()
  redis.call("UNLINK", queue, seen, state, own_runs, suspects, starts, controls, limits, due, budgets, rate)
  keep_standings_for_a_day()
end

-- Of a worker that a node has started the node says whether its process is gone; of others silence is proof.
local function is_minded(worker)
  return string.find(worker, "~", 1, true) ~= nil
end

-- Nobody was heard for a third of a lease: Redis, or the way to it, was away for all, or its clock was set. Then each
-- worker gets a full term, counted from now, before its lease is judged; tell whether that is so. Called first by
-- whatever is a sign of life.
local function heard()
  local silent_ms, given_ms = now_ms - st.heard_ms, st.terms_ms
  if st.ttl_ms == 0 then
    st.ttl_ms = 30000
  end
  if silent_ms > math.max(1000, st.ttl_ms / 3) or silent_ms < -1000 then
    for _, worker in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
      redis.call("ZADD", workers, now_ms + st.ttl_ms, worker)
    end
    st.terms_ms = now_ms
  end
  if silent_ms < -1000 then
    -- What was to come by a clock that was set back would not come for long.
    redis.call("ZUNIONSTORE", due, 1, due, "WEIGHTS", 0)
    st.idle_since, st.hungry_ms = math.min(st.idle_since, now_ms), math.min(st.hungry_ms, now_ms)
  end
  st.heard_ms = now_ms
  return st.terms_ms ~= given_ms
end

-- For how long it may still turn out that a worker lives that was not heard since all were given a full term.
local function doubtful_ms()
  local longest_ms = 0
  local found = redis.call("ZRANGEBYSCORE", workers, "(" .. now_ms, "+inf", "WITHSCORES")
  for at = 1, #found, 2 do
    local standing = standing_of(found[at])
    if standing and tonumber(standing.at_ms) < st.terms_ms then
      longest_ms = math.max(longest_ms, tonumber(found[at + 1]) - now_ms)
    end
  end
  return longest_ms
end

local function reclaim_lapsed(but)
  for _, worker in ipairs(redis.call("ZRANGEBYSCORE", workers, "-inf", now_ms, "LIMIT", 0, 8)) do
    if worker ~= but then
      local standing = standing_of(worker)
      -- A node may be gone with its worker, or both be cut off. If others were heard all the time, a page may be the cause:
      -- it is run alone from the second time on, and who falls silent with nothing but that has died of it.
      local was_alone = standing and string.find(standing.marks, "A", 1, true)
      local was_heard = standing and tonumber(standing.at_ms) > st.terms_ms
      reclaim(worker, not is_minded(worker) or was_heard, is_minded(worker) and not was_alone and SUSPECT_AFTER or nil)
      if standing then
        mark_lapsed(worker, standing)
      end
    end
  end
end

local function seeds_waiting()
  local by_kind = { list = "LLEN", set = "SCARD", zset = "ZCARD" }
  local found = redis.pcall(by_kind[st.seeds] or "LLEN", seeds)
  return type(found) == "number" and found or 0
end

local function pending()
  return redis.call("ZCARD", queue) + st.parked + redis.call("ZCARD", suspects)
end

local function in_all_hands()
  local sum = 0
  for _, worker in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    sum = sum + redis.call("HLEN", hands .. worker)
  end
  return sum
end

-- A crawl has the runs of all who came to it since it was begun.
local function is_of_run(run)
  return run ~= "" and redis.call("SISMEMBER", own_runs, run) == 1
end

local function add_run(run)
  if run ~= "" then
    redis.call("SADD", own_runs, run)
  end
end

local RUNS_KEPT_MS = 7 * 86400 * 1000

-- Remember that a crawl is over once nobody who lives works on it, and who worked on it last; nodes tell of it.
local function note_end(worker)
  if #redis.call("ZRANGEBYSCORE", workers, "(" .. now_ms, "+inf", "LIMIT", 0, 1) == 0 then
    local pages, delivered = string.format("%.0f", st.pages), string.format("%.0f", st.items)
    redis.call("ZADD", runs, now_ms, cjson.encode({ st.crawl, worker, pages, delivered }))
    redis.call("ZREMRANGEBYSCORE", runs, "-inf", now_ms - RUNS_KEPT_MS)
  end
end

-- Whoever was told to join changes nothing of whose crawl it is: those who come by themselves still belong there.
local function with_owner_of(known, plan, is_begun)
  local kept = is_begun and { "project", "bot", "digest", "arguments", "is_named" } or { "project", "bot" }
  for _, name in ipairs(kept) do
    plan[name] = known[name]
  end
  return cjson.encode(plan)
end

local function anyone_has_more()
  for _, worker in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    local standing = standing_of(worker)
    if standing and string.find(standing.marks, "M", 1, true) then
      return true
    end
  end
  return false
end
