-- Carry out a worker's commit whole, take back what the dead held, and lease the next batch.
-- KEYS: the crawl's
-- ARGV: worker, token, number, ttl_ms, want, controls_seen, marks (M has more, E start() ended; - none), how many
--       pushes, endings, loose items, budgets, items in all, and parts of items that go ahead of their page; then of
--       each push: filter, score, fingerprint, root, body; of each such part: entry, how many, the items; of each
--       ending: entry, disposition, why, how many items went ahead, how many come now, these; the loose items; of each
--       budget: domain, budget
-- RETURNS: {"spoilt", key} | {"lapsed", known} | {"rolled_back", known} | {"repeated", number} | {"done", number,
--          pending, workers, start, is over, idle_ms, again_ms or -1, is hungry, controls ("" as seen, "-" none),
--          refused, {duplicates}, {member, score, ...}}
-- INCLUDES: crawl_seen
local worker, token, number, ttl_ms, want = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local controls_seen, marks = tonumber(ARGV[6]), ARGV[7]
local n_pushes, n_ends = tonumber(ARGV[8]), tonumber(ARGV[9])
local n_loose, n_budgets, n_parts = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[13])

local standing = standing_of(worker)
if not standing or tonumber(standing.token) < tonumber(token) then
  return { "rolled_back", -1 }
end
if standing.token ~= token or string.find(standing.marks, "L", 1, true) then
  -- Under a token of before it was not carried out, and all before it was.
  return { "lapsed", standing.token == token and standing.number or number - 1 }
end
if not load_state() then
  return { "rolled_back", -1 }
end
-- A Redis that is full refuses what brings more at its first write, and lets the rest of a script be. What brings
-- nothing is carried out: it makes room.
if n_pushes + tonumber(ARGV[12]) > 0 then
  redis.call("HSET", state, "commits", string.format("%.0f", st.commits))
else
  redis.call("HDEL", state, "")
end
heard()
if number <= standing.number then
  redis.call("ZADD", workers, now_ms + ttl_ms, worker)
  set_standing(worker, token, standing.number, standing.pages, standing.marks)
  save_state()
  return { "repeated", number }
end
if number > standing.number + 1 then
  save_state()
  return { "rolled_back", standing.number }
end

-- Nothing is begun that a key of another type would break off in the middle.
local function is_type(key, wanted)
  local found = redis.call("TYPE", key).ok
  return found == "none" or found == wanted
end
local spoilt = not is_type(queue, "zset") and queue
  or st.seen == "set" and not is_type(seen, "set") and seen
  or st.items_kind ~= "none" and not is_type(items, items_type()) and items
if spoilt then
  return { "spoilt", spoilt }
end

local at = 14
for i = #ARGV - 2 * n_budgets + 1, #ARGV, 2 do
  -- A budget that a worker learned gives way to one that an operator set.
  redis.call("HSETNX", limits, ARGV[i], ARGV[i + 1])
  st.limited = 1
end
local duplicates, refused, n_items, n_acknowledged = {}, 0, 0, 0
local own_hands = hands .. worker

for i = 0, n_pushes - 1 do
  local filter, score, form, root, body = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  at = at + 5
  local is_wanted
  if filter == "n" then
    is_wanted = true
  elseif filter == "f" then
    is_wanted = is_new(form, root)
  elseif filter == "s" then
    is_wanted = redis.call("SADD", starts, form) == 1
    if is_wanted then
      is_new(form, root)
    end
  else
    is_wanted = true
    is_new(form, root)
  end
  if is_wanted then
    wait_in_line(score, struct.pack(">I8", next_number()) .. "\0" .. body)
  else
    duplicates[#duplicates + 1] = i
  end
end

for _ = 1, n_parts do
  local entry, count = ARGV[at], tonumber(ARGV[at + 1])
  if redis.call("HEXISTS", own_hands, entry) == 1 then
    redis.call("RPUSH", staged .. id_of(entry), unpack(ARGV, at + 2, at + 1 + count))
    redis.call("HINCRBY", staging, entry, count)
  end
  at = at + 2 + count
end

for _ = 1, n_ends do
  local entry, disposition, why, ahead, count = unpack(ARGV, at, at + 4)
  ahead, count, at = tonumber(ahead), tonumber(count), at + 5
  if ahead > 0 and disposition == "a" and tonumber(redis.call("HGET", staging, entry) or 0) ~= ahead then
    -- This Redis has forgotten some of them: the page is done again.
    disposition, refused = "b", refused + 1
  end
  local held = (disposition ~= "a" or st.limited == 1) and redis.call("HGET", own_hands, entry)
  if redis.call("HDEL", own_hands, entry) == 0 then
    refused = refused + 1
  elseif disposition == "a" then
    n_acknowledged = n_acknowledged + 1
    if ahead > 0 then
      if count > 0 then
        redis.call("RPUSH", staged .. id_of(entry), unpack(ARGV, at, at + count - 1))
      end
      redis.call("HDEL", staging, entry)
      st.outgoing = redis.call("RPUSH", outgoing, id_of(entry) .. " 0")
    elseif count > 0 then
      local key = id_of(entry) .. "-"
      for i = 0, count - 1 do
        deliver(key .. i, ARGV[at + i])
      end
      n_items = n_items + count
    end
    if held then
      local _, member = split_held(held)
      free_slot(member)
    end
  else
    local score, member = split_held(held)
    free_slot(member)
    drop_staged(entry)
    if disposition == "b" then
      put_back(score, member)
    elseif disposition == "x" then
      bury(score, member, why)
    else
      redis.call("HSET", blocked, entry, held)
    end
  end
  at = at + count
end
for i = 0, n_loose - 1 do
  deliver(string.format("%s.%.0f-%d", token, number, i), ARGV[at + i])
end
n_items = n_items + n_loose + deliver_staged()

redis.call("ZADD", workers, now_ms + ttl_ms, worker)
reclaim_lapsed(worker)

local start = "done"
-- Only who has the part of start() knows of its end. Of others it is nothing but hearsay, which may be of a time that
-- this Redis has forgotten.
if string.find(marks, "E", 1, true) and st.start == worker then
  st.start = "!"
elseif st.start == "" then
  st.start = worker
end
if st.start ~= "!" then
  start = st.start == worker and "yours" or "wait"
end

local leased = {}
local function lease(score, member)
  hold(own_hands, score, member)
  leased[#leased + 1] = member
  leased[#leased + 1] = score
end

local wishes = redis.call("GET", controls)
local known = wishes and cjson.decode(wishes) or { version = 0 }
if known.is_paused then
  want = 0
end
local asked = want

local n_workers = redis.call("ZCARD", workers)
local waiting = redis.call("ZCARD", queue) + st.parked

-- A suspect runs alone. One worker lets go of all else for it; who has nothing at all may have one at once.
local is_alone = string.find(standing.marks, "A", 1, true) and redis.call("HLEN", own_hands) > 0
if is_alone then
  want = 0
elseif asked > 0 and redis.call("ZCARD", suspects) > 0 then
  if st.suspect_of ~= "" and not redis.call("ZSCORE", workers, st.suspect_of) then
    st.suspect_of = ""
  end
  if st.suspect_of == "" and waiting > 0 then
    st.suspect_of = worker
  end
  local is_meant = st.suspect_of == worker
  if redis.call("HLEN", own_hands) == 0 and (is_meant or waiting == 0) then
    local found = redis.call("ZPOPMIN", suspects, 1)
    lease(found[2], found[1])
    is_alone = true
  end
  if is_meant or is_alone then
    want = 0
  end
elseif st.suspect_of == worker then
  st.suspect_of = ""
end
local kept_marks = (string.find(marks, "M", 1, true) and "M" or "") .. (is_alone and "A" or "")
set_standing(worker, token, number, standing.pages + n_acknowledged, kept_marks == "" and "-" or kept_marks)

local n_seeds = want > 0 and redis.call("ZCARD", queue) < want and seeds_waiting() or 0
want = math.min(want, math.max(1, math.ceil((waiting + n_seeds) / n_workers)))

-- How many entries of a domain may go now, and when the next may.
local function room_of(domain, budget)
  local per_second, at_once = budget[1], budget[2]
  local room, again_ms = 1e9, nil
  if at_once > 0 then
    room = at_once - (tonumber(redis.call("HGET", budgets, "#" .. domain)) or 0)
    again_ms = 1000
  end
  if per_second > 0 and room > 0 then
    local tokens, since = string.match(redis.call("HGET", budgets, domain) or "", "^(%S+) (%S+)$")
    local burst = math.max(1, per_second / 4)
    -- A clock that was set back has not let any time pass.
    local passed_ms = since and math.max(0, now_ms - tonumber(since))
    tokens = since and math.min(burst, tonumber(tokens) + passed_ms * per_second / 1000) or 1
    redis.call("HSET", budgets, domain, string.format("%.6f %.0f", tokens, now_ms))
    if tokens < room then
      room, again_ms = math.floor(tokens + 1e-6), math.max(1, math.ceil((1 - tokens % 1) * 1000 / per_second))
    end
  end
  return math.max(0, room), again_ms
end

local function use(domain, budget, count)
  if budget[1] > 0 then
    local tokens, since = string.match(redis.call("HGET", budgets, domain), "^(%S+) (%S+)$")
    redis.call("HSET", budgets, domain, string.format("%.6f %s", tonumber(tokens) - count, since))
  end
end

-- Lease what may go now of the domains that have a turn, the one that has waited longest first, `most` in all; of a
-- domain whose first entry is less urgent than `than`, nothing.
local function lease_of_domains(most, than)
  local left = most
  for _, domain in ipairs(redis.call("ZRANGEBYSCORE", due, "-inf", now_ms, "LIMIT", 0, 100)) do
    if left <= 0 then
      break
    end
    local line, budget, room, again_ms = domains .. domain, budget_of(domain), 1e9, nil
    local head = than and redis.call("ZRANGE", line, 0, 0, "WITHSCORES")[2]
    if not head or tonumber(head) <= than then
      if budget then
        room, again_ms = room_of(domain, budget)
      end
      local found = room > 0 and pop_from(line, math.min(room, left)) or {}
      for i = 1, #found, 2 do
        lease(found[i + 1], found[i])
      end
      local count = #found / 2
      st.parked, left = st.parked - count, left - count
      if budget and count > 0 then
        use(domain, budget, count)
        if count == room then
          _, again_ms = room_of(domain, budget)
        end
      end
      if redis.call("ZCARD", line) == 0 then
        redis.call("ZREM", due, domain)
      elseif count == room then
        redis.call("ZADD", due, now_ms + (again_ms or 1), domain)
      else
        redis.call("ZADD", due, now_ms, domain)
      end
    end
  end
  return most - left
end

-- Half for the domains with budgets while others wait too, and then what is left over of the others' half.
local first = want > 0 and st.parked > 0 and redis.call("ZRANGE", queue, 0, 0, "WITHSCORES")[2]
if first then
  want = want - lease_of_domains(math.ceil(want / 2), tonumber(first))
end

local looked_at = 0
while want > 0 and looked_at < 500 do
  local found = pop_from(queue, want)
  if #found == 0 then
    break
  end
  for i = 1, #found, 2 do
    local member, score, domain = found[i], found[i + 1], nil
    local budget = nil
    if st.limited == 1 and not is_seed(member) then
      domain = host_of(member)
      budget = budget_of(domain)
    end
    if not budget then
      lease(score, member)
      want = want - 1
    elseif redis.call("ZSCORE", due, domain) then
      redis.call("ZADD", domains .. domain, score, member)
      st.parked = st.parked + 1
    else
      local room, again_ms = room_of(domain, budget)
      if room > 0 then
        use(domain, budget, 1)
        lease(score, member)
        want = want - 1
      else
        redis.call("ZADD", domains .. domain, score, member)
        st.parked = st.parked + 1
        redis.call("ZADD", due, now_ms + (again_ms or 1), domain)
      end
    end
  end
  looked_at = looked_at + #found / 2
end

if want > 0 and st.parked > 0 then
  want = want - lease_of_domains(want)
end

-- Seeds become entries once nothing else is there to do.
if want > 0 and n_seeds > 0 then
  local found = {}
  if st.seeds == "zset" then
    for i, value in ipairs(redis.call("ZPOPMAX", seeds, want)) do
      if i % 2 == 1 then
        found[#found + 1] = value
      end
    end
  else
    found = redis.call(st.seeds == "set" and "SPOP" or "LPOP", seeds, want)
  end
  for _, body in ipairs(found) do
    lease("0", struct.pack(">I8", next_number()) .. string.char(SEED) .. body)
  end
end

-- A budget that nobody has drawn on for long is full, as it is when nothing is known of it.
if st.limited == 1 and redis.call("HLEN", budgets) > 1000 then
  for _, domain in ipairs(redis.call("HRANDFIELD", budgets, 20)) do
    local since = string.match(redis.call("HGET", budgets, domain) or "", "^%S+ (%S+)$")
    local budget = since and budget_of(domain)
    local is_full = budget and (now_ms - tonumber(since)) * budget[1] / 1000 >= math.max(1, budget[1] / 4)
    if since and (is_full or not budget) and not redis.call("ZSCORE", due, domain) then
      redis.call("HDEL", budgets, domain)
    end
  end
end
if st.was_over == 1 and (#leased > 0 or n_pushes > #duplicates) then
  st.ended, st.was_over = 0, 0
  for _, run in ipairs(redis.call("SMEMBERS", own_runs)) do
    redis.call("ZREM", runs, st.crawl .. " " .. run)
  end
end
local left = pending()
local is_over, again_ms = 0, -1
if left == 0 and #leased == 0 and seeds_waiting() == 0 and in_all_hands() == 0 then
  if st.start == "!" and st.outgoing == 0 and not anyone_has_more() then
    is_over = 1
  end
  if st.idle_since == 0 then
    st.idle_since = now_ms
  end
else
  st.idle_since = 0
end
if st.parked > 0 then
  local first = redis.call("ZRANGE", due, 0, 0, "WITHSCORES")
  again_ms = first[2] and math.max(0, tonumber(first[2]) - now_ms) or -1
end
if st.outgoing > 0 then
  again_ms = 0
end

local is_hungry = (left == 0 and st.hungry ~= "" and st.hungry ~= worker and st.hungry_ms > now_ms - 1000) and 1 or 0
if asked > 0 and #leased == 0 then
  st.hungry, st.hungry_ms = worker, now_ms
elseif st.hungry == worker then
  st.hungry = ""
end

st.pages, st.items = st.pages + n_acknowledged, st.items + n_items
st.duplicates, st.commits = st.duplicates + #duplicates, st.commits + 1
if n_acknowledged > 0 or n_items > 0 then
  local minute = string.format("%.0f", math.floor(now_ms / 10000))
  redis.call("HINCRBY", rate, "p" .. minute, n_acknowledged)
  if n_items > 0 then
    redis.call("HINCRBY", rate, "i" .. minute, n_items)
  end
  if redis.call("HLEN", rate) > 40 then
    for _, name in ipairs(redis.call("HKEYS", rate)) do
      if tonumber(string.sub(name, 2)) < math.floor(now_ms / 10000) - 7 then
        redis.call("HDEL", rate, name)
      end
    end
  end
end
grow_packed()
save_state()

-- Controls that a Redis which came back older has forgotten are none.
local told = known.version ~= controls_seen and (wishes or "-") or ""
local idle_ms = st.idle_since > 0 and now_ms - st.idle_since or 0
return {
  "done", number, left, n_workers, start, is_over, idle_ms, again_ms, is_hungry, told, refused, duplicates, leased,
}
