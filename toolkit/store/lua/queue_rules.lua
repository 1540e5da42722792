-- The rules that every script of the queue shares; they are put before a script that says `INCLUDES: queue_rules`.
-- A job's facts are JSON in one hash: no field is null, times are milliseconds since 1970. Its order (arguments) lies
-- beside it and is never read here. The keys of the lines are the only names made in Lua: `line_prefix .. line`, since
-- only the script knows which line a job belongs to; they share the cluster's hash slot.
-- KEYS: jobs orders unfinished final ids owners leases progress wishes lines line_prefix delayed same busy caps
--       tokens room beats clock wake lost events followers crons_due measures
-- ARGV: the script's own
-- RETURNS: nothing
local jobs, orders, unfinished, final, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owners, leases, progress, wishes = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local lines, line_prefix, delayed, same = KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local busy, caps, tokens, room = KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local beats, clock, wake, lost = KEYS[18], KEYS[19], KEYS[20], KEYS[21]
local events, followers, crons_due, measures = KEYS[22], KEYS[23], KEYS[24], KEYS[25]

local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function read(id)
  local body = redis.call("HGET", jobs, id)
  return body and cjson.decode(body)
end

local function write(id, job)
  redis.call("HSET", jobs, id, cjson.encode(job))
end

local function is_pending(job)
  return job.line ~= nil and job.state == "pending"
end

local function is_active(job)
  return job.line ~= nil and (job.state == "starting" or job.state == "running" or job.state == "paused")
end

-- How much the number of a claim rises when this server comes back: more than that of any claim it has forgotten.
local FORGOTTEN_MS = 10000

-- When this server last came back: started anew, or took over from another. What it held before may be forgotten. Each
-- life of a server has an id of its own; one that differs from the id kept here is noticed by whoever asks first. A node
-- that has heard of a later return (`heard_ms`) heard it from another server: this one was replaced and took over again,
-- with its old state and id. Leases then get a full term of the longest lease, which is returned, too: in that time every
-- node that lives renews its own.
local function returned_ms(lease_ms, heard_ms)
  -- Some proxies hide the run_id.
  local life = string.match(redis.call("INFO", "server"), "run_id:(%w+)") or ""
  local known = redis.call("HMGET", clock, "life", "back_ms", "back_lease_ms", "lease_ms")
  local back_ms = tonumber(known[2] or 0)
  if known[1] == life and back_ms <= now_ms and (heard_ms or 0) <= back_ms then
    return back_ms, tonumber(known[3] or lease_ms)
  end
  lease_ms = math.max(lease_ms, tonumber(known[4] or 0))
  -- A server without any record has forgotten nothing, unless a node has heard from one before. One whose clock was set
  -- back came back now.
  back_ms = (known[1] or heard_ms) and now_ms or 0
  local last_ms = tonumber(redis.call("ZREVRANGE", beats, 0, 0, "WITHSCORES")[2] or 0)
  redis.call("HSET", clock, "life", life, "back_ms", back_ms, "last_beat_ms", math.min(last_ms, now_ms))
  redis.call("HSET", clock, "back_lease_ms", lease_ms)
  if back_ms > 0 then
    -- No sign of life from before may look as if it had been given since: another clock may have been ahead.
    for _, node in ipairs(redis.call("ZRANGEBYSCORE", beats, back_ms, "+inf")) do
      redis.call("ZADD", beats, back_ms - 1, node)
    end
    -- The clock of the server that gave numbers before may have been ahead of this one.
    local number = math.max(tonumber(redis.call("GET", tokens) or 0), last_ms, heard_ms or 0, now_ms) + FORGOTTEN_MS
    redis.call("SET", tokens, string.format("%.0f", number))
    redis.call("HSET", clock, "grace_ms", now_ms + lease_ms)
  end
  return back_ms, lease_ms
end

-- A token is `<number>.<ms>.<attempt>:<node>:<session>`: of two claims, the later one has the greater number.
local function parts_of(token)
  local number, ms, attempt, node = string.match(token, "^(%d+)%.(%d+)%.(%d+):(.+):[^:]*$")
  return tonumber(number), tonumber(ms), tonumber(attempt), node
end

-- The state that operators are shown: whether a spider is paused is known from what it last said.
local function shown_state(id, job)
  if job.state ~= "running" then
    return job.state
  end
  local said = redis.call("HGET", progress, id)
  return said and cjson.decode(said).state == "paused" and "paused" or job.state
end

-- Tell of a change of a job, in the step that makes it. What is told are texts.
local MAX_EVENTS = 100000
local function tell_of(kind, subject, about)
  local told = cjson.encode(about)
  redis.call("XADD", events, "MAXLEN", "~", MAX_EVENTS, "*", "kind", kind, "subject", subject, "about", told)
end

local function tell(kind, id, job)
  local about = { project = job.project, spider = job.spider, version = job.version, node = job.node }
  about.reason, about.finish_reason = job.reason, job.finish_reason
  about.crawl = job.crawl
  about.attempt = job.attempt and string.format("%d", job.attempt)
  about.cron = job.cron
  tell_of(kind, id, about)
end

local function wake_nodes(whom)
  redis.call("PUBLISH", wake, whom)
end

-- Let the crons hear of a job's end, in the step that makes it: those that follow its spider are due now, and so is a
-- firing that waits for the end of the one before. When a cron's last good firing was due is kept beside its followers,
-- at a place that is there for as long as the cron.
local function tell_crons(id, job)
  if redis.call("EXISTS", followers) == 0 then
    return
  end
  local ended = string.format("\n%.0f\n%s\n%s", job.ended_ms, id, job.project)
  local is_any_due = false
  for _, spider in ipairs({ job.project .. "/" .. job.spider, "/" .. job.spider }) do
    for cron, outcome in pairs(cjson.decode(redis.call("HGET", followers, spider) or "{}")) do
      local is_good, is_bad = job.state == "finished", job.state == "failed" or job.state == "lost"
      if outcome == "any" or (outcome == "success" and is_good) or (outcome == "failed" and is_bad) then
        redis.call("ZADD", crons_due, now_ms, cron .. ended)
        is_any_due = true
      end
    end
  end
  if job.cron and job.state == "finished" then
    local good_ms = redis.call("HGET", followers, "+" .. job.cron)
    if good_ms and job.cron_ms > (tonumber(good_ms) or 0) then
      redis.call("HSET", followers, "+" .. job.cron, string.format("%.0f", job.cron_ms))
    end
  end
  if job.cron and redis.call("ZADD", crons_due, "XX", "CH", now_ms, job.cron .. "\n") == 1 then
    is_any_due = true
  end
  if is_any_due then
    wake_nodes("crons")
  end
end

-- Make a pending job takable: in its line, at the place that its priority and age give it, or delayed, or held.
local function line_up(id, job)
  if job.is_held then
    return
  end
  if job.due_ms and job.due_ms > now_ms then
    redis.call("ZADD", delayed, job.due_ms, id)
    return
  end
  job.ready_ms = now_ms
  redis.call("ZADD", line_prefix .. job.line, -job.priority * 1e12 + job.seq, id)
  redis.call("SADD", lines, job.line)
end

local function step_out(id, job)
  redis.call("ZREM", delayed, id)
  redis.call("ZREM", line_prefix .. job.line, id)
  if redis.call("EXISTS", line_prefix .. job.line) == 0 then
    redis.call("SREM", lines, job.line)
  end
end

local function busy_fields(job)
  local project = "p:" .. job.project
  local spider = "s:" .. job.project .. "/" .. job.spider
  return { project, spider, project .. "/n:" .. job.node, spider .. "/n:" .. job.node }
end

local function count_busy(job, by)
  for _, field in ipairs(busy_fields(job)) do
    if redis.call("HINCRBY", busy, field, by) <= 0 then
      redis.call("HDEL", busy, field)
    end
  end
end

-- Take an active job from its owner: from now on, every write under the old token is refused.
local function disown(id, job)
  redis.call("HDEL", owners, id)
  redis.call("ZREM", leases, id)
  redis.call("HDEL", progress, id)
  count_busy(job, -1)
end

-- Make a claim the job's present one. It must stand in no line, and be no other claim's.
local function own(id, job, token, lease_ms)
  job.token = token
  count_busy(job, 1)
  redis.call("HSET", owners, id, token)
  redis.call("ZADD", leases, now_ms + lease_ms, id)
end

-- Count a job of the queue that is not final any more, or is one again.
local function count_open(job, by)
  redis.call("HINCRBY", clock, "open", by)
  redis.call("HINCRBY", clock, "ended", -by)
  if job.same and redis.call("HINCRBY", same, job.same, by) <= 0 then
    redis.call("HDEL", same, job.same)
  end
end

-- Give a job its final state. It must have left its line, or its owner, before.
local function settle(id, job, state, reason)
  job.state, job.reason = state, reason
  job.ended_ms = job.ended_ms or now_ms
  redis.call("HDEL", wishes, id)
  count_open(job, -1)
  redis.call("ZADD", final, redis.call("ZSCORE", unfinished, id) or now_ms * 1000, id)
  redis.call("ZREM", unfinished, id)
  if state == "lost" then
    redis.call("ZADD", lost, now_ms, id)
  end
  write(id, job)
  redis.call("HINCRBY", measures, "ended:" .. state .. ":" .. job.project, 1)
  tell("job." .. state, id, job)
  tell_crons(id, job)
end

-- Let a job in a final state be an open one again. It is to be written.
local function reopen(id, job)
  redis.call("ZADD", unfinished, redis.call("ZSCORE", final, id) or now_ms * 1000, id)
  redis.call("ZREM", final, id)
  redis.call("ZREM", lost, id)
  count_open(job, 1)
end

-- Put a disowned job back to its old place, without what its last attempt left. The claim that it was taken from may
-- have it back as long as nobody else has it, unless its process is gone.
local function return_to_line(id, job, reason, keeps_token)
  job.state, job.reason = "pending", reason
  if job.started_ms then
    redis.call("HINCRBY", measures, "requeued", 1)
    tell("job.requeued", id, job)
  end
  if not keeps_token then
    job.token = nil
  end
  job.node, job.pid, job.claimed_ms, job.started_ms, job.ended_ms = nil, nil, nil, nil, nil
  job.exit_code, job.signal, job.finish_reason, job.due_ms = nil, nil, nil, nil
  job.pages, job.items, job.errors, job.retries, job.bytes = nil, nil, nil, nil, nil
  job.pages_per_minute, job.memory_mb, job.statuses = nil, nil, nil
  line_up(id, job)
  write(id, job)
end

-- What becomes of an active job without an outcome of its own; it must be disowned already. `is_gone` tells that its
-- process is known to have ended, not only that nothing is heard of its node.
local function requeue(id, job, reason, is_gone)
  if job.cancel_ms and is_gone then
    settle(id, job, "cancelled", "cancelled on request; " .. reason)
  elseif job.cancel_ms then
    settle(id, job, "lost", reason .. ", before it could prove that the job had ended as asked")
  elseif job.attempt >= job.attempts then
    settle(id, job, "lost", reason .. ", at attempt " .. job.attempt .. " of " .. job.attempts)
  else
    return_to_line(id, job, reason, not is_gone)
  end
  return job.state
end

local function wish_end(id, grace_s)
  local wish = cjson.decode(redis.call("HGET", wishes, id) or "{}")
  wish.cancel_grace_s = math.min(grace_s, wish.cancel_grace_s or math.huge)
  redis.call("HSET", wishes, id, cjson.encode(wish))
end

-- Tell whether a job is a claim's, and make it so again where this Redis, which came back older, has forgotten the claim,
-- or where the job was taken from it and nobody else has it yet. The job may be changed and written by this.
local function holds(id, job, token, lease_ms)
  if redis.call("HGET", owners, id) == token then
    return true
  end
  local number, claimed_ms, attempt, node = parts_of(token)
  -- `last_claim` is the number of the job's last claim, or the greatest there was when the job came.
  local is_forgotten = number and number > (job.last_claim or 0)
  local was_taken_from_it = number and is_pending(job) and job.token == token
  if not job.line or not (is_forgotten or was_taken_from_it) then
    return false
  end
  if is_pending(job) then
    step_out(id, job)
  elseif is_active(job) then
    disown(id, job)
  else
    reopen(id, job)
  end
  -- Asked for since the claim was forgotten, the end is still wanted. From before the claim, it was of a run that ended.
  if job.cancel_ms and job.cancel_ms <= math.min(claimed_ms, (returned_ms(lease_ms))) then
    job.cancel_ms = nil
    redis.call("HDEL", wishes, id)
  elseif job.cancel_ms then
    wish_end(id, job.cancel_grace_s or 0)
  end
  job.state, job.node, job.attempt, job.last_claim, job.is_held = "starting", node, attempt, number, nil
  job.claimed_ms, job.started_ms, job.ended_ms, job.reason = now_ms, nil, nil, nil
  own(id, job, token, lease_ms)
  write(id, job)
  return true
end

-- Cancel a pending job at once, or record the wish for an active one before any signal is sent; its node is to be woken.
local function ask_to_end(id, job, grace_s, woken)
  -- The grace is kept for a claim that is forgotten now.
  job.cancel_ms, job.cancel_grace_s = job.cancel_ms or now_ms, grace_s
  if is_pending(job) then
    step_out(id, job)
    settle(id, job, "cancelled", "cancelled while it was pending")
  elseif is_active(job) then
    wish_end(id, grace_s)
    write(id, job)
    woken[job.node] = true
  end
end
