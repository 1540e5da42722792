-- Give the best pending job of the lines that this node can run to it, under a fresh lease and token.
-- KEYS: the queue's, then draining sessions
-- ARGV: node, session, lease_ms, patience_ms, slots, running, then the lines
-- RETURNS: {"job", id, token, facts, order} | {"wait", ms} | {"none", ms until the next delayed job, or -1}
-- INCLUDES: queue_rules
local node, session, lease_ms, patience_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local slots, running = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Only the session that the name belongs to may claim under it, and not while it drains.
local known = redis.call("HGET", KEYS[27], node)
if not known or cjson.decode(known).session ~= session or redis.call("HEXISTS", KEYS[26], node) == 1 or slots < 1 then
  return { "none", -1 }
end
redis.call("ZADD", room, running / slots, node)

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
  line_up(id, job)
  write(id, job)
end
if is_any_due then
  -- Their lines may be none of those that this node asks for.
  wake_nodes("queue")
end

local heads = {}
for at = 7, #ARGV do
  local head = redis.call("ZRANGE", line_prefix .. ARGV[at], 0, 0, "WITHSCORES")
  if head[1] then
    heads[#heads + 1] = { id = head[1], score = tonumber(head[2]), line = ARGV[at] }
  end
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
local function is_other_freer()
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

for _, head in ipairs(heads) do
  if not is_capped(head.line) then
    local id, job = head.id, read(head.id)
    local wait_ms = (job.ready_ms or 0) + patience_ms - now_ms
    if wait_ms > 0 and is_other_freer() then
      return { "wait", wait_ms }
    end
    step_out(id, job)
    job.state, job.node, job.attempt, job.claimed_ms, job.reason = "starting", node, job.attempt + 1, now_ms, nil
    -- The clock is part of it, so that a token is new even where the last writes to `tokens` were lost.
    job.token = string.format("%d.%.0f:%s:%s", redis.call("INCR", tokens), now_ms, node, session)
    count_busy(job, 1)
    redis.call("HSET", owners, id, job.token)
    redis.call("ZADD", leases, now_ms + lease_ms, id)
    if running + 1 < slots then
      redis.call("ZADD", room, (running + 1) / slots, node)
    else
      redis.call("ZREM", room, node)
    end
    write(id, job)
    measure_wait(job)
    return { "job", id, job.token, redis.call("HGET", jobs, id), redis.call("HGET", orders, id) }
  end
end

local due = redis.call("ZRANGE", delayed, 0, 0, "WITHSCORES")
return { "none", due[2] and math.max(1, math.ceil(tonumber(due[2]) - now_ms)) or -1 }
