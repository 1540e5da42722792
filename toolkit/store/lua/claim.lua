-- Give the best pending job of the lines that this node can run to it, under a fresh lease and token.
-- KEYS: the queue's, then draining sessions
-- ARGV: node, session, lease_ms, patience_ms, slots, running, when Redis last came back as the node has heard, asked_us
--       (as for `reconcile`), how many jobs it still has a process of, their ids, then the lines
-- RETURNS: {"job", id, token, facts, order} | {"none", ms until it may be worth looking again, or -1}
--          | {"beat"}: it has given no sign of life since Redis came back
-- INCLUDES: kept_rules
local node, session, lease_ms, patience_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local slots, running = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Only the session that the name belongs to may claim under it, and not while it drains.
local known = cjson.decode(redis.call("HGET", KEYS[27], node) or "{}")
if known.session ~= session or redis.call("HEXISTS", KEYS[26], node) == 1 or slots < 1 then
  return { "none", -1 }
end
-- A claim that was stuck on the way until its node had settled what it has: nobody waits for the answer any more.
if tonumber(ARGV[8]) < tonumber(known.asked_us or 0) then
  return { "none", -1 }
end
-- What it holds, or has told, may be forgotten here: it says so before it takes anything.
local back_ms, back_lease_ms = returned_ms(lease_ms)
if tonumber(redis.call("ZSCORE", beats, node) or 0) < back_ms or tonumber(ARGV[7]) > back_ms then
  return { "beat" }
end
redis.call("ZADD", room, running / slots, node)

local has_process, n_processes = {}, tonumber(ARGV[9])
for at = 10, 9 + n_processes do
  has_process[ARGV[at]] = true
end

-- How long a job may have waited for its claim, in milliseconds; `wire_measures.py` knows the same.
local BOUNDS = { 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 1800000, 7200000 }
local function measure_wait(job)
  local waited_ms = math.max(0, now_ms - (job.ready_ms or now_ms))
  local bound = "more"
  for _, each in ipairs(BOUNDS) do
    if waited_ms <= each then
      bound = each
      break
    end
  end
  redis.call("HINCRBY", measures, "claims:" .. bound, 1)
  redis.call("HINCRBY", measures, "waited_ms", string.format("%.0f", waited_ms))
end

local is_any_due = false
for _, id in ipairs(redis.call("ZRANGEBYSCORE", delayed, "-inf", now_ms, "LIMIT", 0, 100)) do
  local job = read(id)
  is_any_due = true
  redis.call("ZREM", delayed, id)
  if job then
    line_up(id, job)
    write(id, job)
  end
end
if is_any_due then
  -- Their lines may be none of those that this node asks for.
  wake_nodes("queue")
end

-- A node that was there before Redis came back tells of forgotten claims and ends within a second or two. Until all such
-- nodes have told, no job is begun; who takes longer than half a lease is not waited for.
local HEARS_SOON_MS = 250
if now_ms < back_ms + back_lease_ms / 2 then
  local since_ms = tonumber(redis.call("HGET", clock, "last_beat_ms") or 0) - back_lease_ms
  if redis.call("ZCOUNT", beats, since_ms, "(" .. string.format("%.0f", back_ms)) > 0 then
    return { "none", HEARS_SOON_MS }
  end
end

-- While nodes may still tell of claims that were forgotten, no job is begun that may be begun only once more.
local wait_of_last_ms = back_ms + back_lease_ms - now_ms
local function may_begin(id)
  if has_process[id] then
    return false
  end
  if wait_of_last_ms <= 0 then
    return true
  end
  local job = read(id)
  return not job or job.attempt + 1 < job.attempts
end

-- Where the head of a line may not be begun, some that come behind it are looked at: not many of one line, nor in all.
local SEEN_OF_A_LINE = 100
local seen_left = 500
local heads, is_any_waiting = {}, false
local function find_head(line)
  local from, last = 0, 0
  while from < SEEN_OF_A_LINE and (from == 0 or seen_left > 0) do
    local found = redis.call("ZRANGE", line_prefix .. line, from, last, "WITHSCORES")
    seen_left = from > 0 and seen_left - #found / 2 or seen_left
    for i = 1, #found, 2 do
      if may_begin(found[i]) then
        heads[#heads + 1] = { id = found[i], score = tonumber(found[i + 1]), line = line }
        return
      end
      is_any_waiting = true
    end
    if #found < 2 * (last - from + 1) then
      return
    end
    from, last = last + 1, last * 10 + 9
  end
end
for at = 10 + n_processes, #ARGV do
  find_head(ARGV[at])
end
table.sort(heads, function(one, other) return one.score < other.score end)

local function is_capped(line)
  if redis.call("EXISTS", caps) == 0 then
    return false
  end
  local parts = cjson.decode(line)
  for _, field in ipairs({ "p:" .. parts[1], "s:" .. parts[1] .. "/" .. parts[3] }) do
    for _, whole in ipairs({ field, field .. "/n:" .. node }) do
      -- A cap for each node is written once, with an empty name behind the mark.
      local cap = redis.call("HGET", caps, whole == field and field or field .. "/n:")
      if cap and tonumber(redis.call("HGET", busy, whole) or 0) >= tonumber(cap) then
        return true
      end
    end
  end
  return false
end

-- Tell whether a live node has clearly more room than this one.
local function find_other_freer()
  for _ = 1, 5 do
    local freest = redis.call("ZRANGE", room, 0, 0, "WITHSCORES")
    if not freest[1] or freest[1] == node or tonumber(freest[2]) >= running / slots - 0.001 then
      return false
    end
    if tonumber(redis.call("ZSCORE", beats, freest[1]) or 0) > now_ms - lease_ms then
      return true
    end
    redis.call("ZREM", room, freest[1])
  end
  return false
end

local is_other_freer
local function is_left_to_another(job)
  -- Ready in a time to come: the clock was set back. It has waited for an unknown time, so not now.
  local age_ms = now_ms - (job.ready_ms or 0)
  if age_ms < 0 or age_ms >= patience_ms then
    return false
  end
  if is_other_freer == nil then
    is_other_freer = find_other_freer()
  end
  return is_other_freer
end

local function give(id, job)
  step_out(id, job)
  job.state, job.node, job.attempt, job.claimed_ms, job.reason = "starting", node, job.attempt + 1, now_ms, nil
  -- The clock is the floor of the counter: a number is new even where the last ones are forgotten.
  job.last_claim = math.max(tonumber(redis.call("GET", tokens) or 0) + 1, now_ms)
  redis.call("SET", tokens, string.format("%.0f", job.last_claim))
  local token = string.format("%.0f.%.0f.%d:%s:%s", job.last_claim, now_ms, job.attempt, node, session)
  own(id, job, token, lease_ms)
  if running + 1 < slots then
    redis.call("ZADD", room, (running + 1) / slots, node)
  else
    redis.call("ZREM", room, node)
  end
  write(id, job)
  measure_wait(job)
  return { "job", id, job.token, redis.call("HGET", jobs, id), redis.call("HGET", orders, id) }
end

local due = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")
local again_ms = due[2] and math.max(1, math.ceil(tonumber(due[2]) - now_ms)) or math.huge
for _, head in ipairs(heads) do
  if not is_capped(head.line) then
    local job = read(head.id)
    if not job then
      -- Somebody has removed its record: nothing can be done for it.
      redis.call("ZREM", line_prefix .. head.line, head.id)
      return { "none", 1 }
    end
    if not is_left_to_another(job) then
      return give(head.id, job)
    end
    again_ms = math.min(again_ms, job.ready_ms + patience_ms - now_ms)
  end
end
if is_any_waiting and wait_of_last_ms > 0 then
  again_ms = math.min(again_ms, wait_of_last_ms + 1)
end
return { "none", again_ms < math.huge and again_ms or -1 }
