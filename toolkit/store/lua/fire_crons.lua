-- Make firings of crons happen; jobs, next due time, history and event are one step, and that is done once for each.
-- KEYS: the queue's, then crons state history_prefix
-- ARGV: grace_s, max_firings, look_again_ms, max_waiting, then for each firing: name, place ("": by hand), revision,
--       trigger, trigger_ms, the cron's due_ms or "", state, reason, next due_ms or "", next fires_ms or "", overlap,
--       who, what its event tells (JSON), count of jobs, then the jobs, each as `enqueue_rules` says
-- RETURNS: for each firing: its line of history (JSON) | "waits" | "gone" when it is not to be done any more
-- INCLUDES: enqueue_rules
local crons, states, history_prefix = KEYS[26], KEYS[27], KEYS[28]
local grace_s, max_firings, look_again_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local max_waiting, HEAD = tonumber(ARGV[4]), 14
local woken, is_any_new = {}, false

local function read_firing(at)
  local firing = { jobs_at = at + HEAD }
  firing.name, firing.place, firing.revision, firing.trigger, firing.trigger_ms = unpack(ARGV, at, at + 4)
  firing.due_ms, firing.state, firing.reason, firing.next_due_ms, firing.next_fires_ms = unpack(ARGV, at + 5, at + 9)
  firing.overlap, firing.by, firing.about, firing.count = unpack(ARGV, at + 10, at + 13)
  firing.count = tonumber(firing.count)
  firing.has_waited = firing.place == firing.name .. "\n"
  return firing
end

-- Tell whether this firing is still to be done: of several that try the same one, only the first finds it so.
local function is_open(firing, state)
  local body = redis.call("HGET", crons, firing.name)
  if not body or cjson.decode(body).revision ~= firing.revision then
    return false
  end
  if firing.place == "" then
    return firing.count == 0 or redis.call("HEXISTS", jobs, ARGV[firing.jobs_at]) == 0
  end
  if not redis.call("ZSCORE", crons_due, firing.place) then
    return false
  end
  if firing.has_waited then
    return state.waits ~= nil and state.waits[1] == firing.trigger
  end
  return firing.due_ms == "" or state.due_ms == tonumber(firing.due_ms)
end

local function unfinished_jobs(state)
  local found = {}
  for _, id in ipairs(state.jobs or {}) do
    if redis.call("ZSCORE", unfinished, id) then
      found[#found + 1] = id
    end
  end
  return found
end

local function record(firing, state, what, reason, job_ids)
  local line = { due_ms = tonumber(firing.trigger_ms), at_ms = now_ms, state = what, by = firing.by }
  line.reason = reason ~= "" and reason or nil
  line.jobs = #job_ids > 0 and job_ids or nil
  local told = cjson.encode(line)
  redis.call("LPUSH", history_prefix .. firing.name, told)
  redis.call("LTRIM", history_prefix .. firing.name, 0, max_firings - 1)
  state.last = line
  local about = cjson.decode(firing.about)
  about.by, about.reason = firing.by, line.reason
  about.jobs = #job_ids > 0 and table.concat(job_ids, " ", 1, math.min(#job_ids, 20)) or nil
  tell_of("cron." .. what, firing.name, about)
  return told
end

-- Take the firing out of what is due, and say when the cron is due next.
local function move_on(firing, state)
  if firing.due_ms ~= "" then
    state.due_ms, state.fires_ms = tonumber(firing.next_due_ms), tonumber(firing.next_fires_ms)
    if state.due_ms then
      redis.call("ZADD", crons_due, firing.next_fires_ms, firing.name)
    else
      redis.call("ZREM", crons_due, firing.name)
    end
  elseif firing.has_waited then
    table.remove(state.waits, 1)
    if #state.waits == 0 then
      state.waits = nil
      redis.call("ZREM", crons_due, firing.place)
    else
      redis.call("ZADD", crons_due, now_ms + (firing.state == "fired" and look_again_ms or 0), firing.place)
    end
  elseif firing.place ~= "" then
    redis.call("ZREM", crons_due, firing.place)
  end
end

-- Let the firing wait for the end of the one before. Its end brings the place to the front; looking again is for safety.
local function wait(firing, state)
  if firing.has_waited then
    redis.call("ZADD", crons_due, now_ms + look_again_ms, firing.place)
    return "waits"
  end
  local waits = state.waits or {}
  if firing.overlap == "replace" and waits[1] then
    local former = { name = firing.name, trigger_ms = string.match(waits[1], "^%d+"), by = firing.by, about = "{}" }
    record(former, state, "skipped", "replaced by the firing after it, before it could begin", {})
    waits = {}
  end
  if #waits >= max_waiting then
    move_on(firing, state)
    return record(firing, state, "skipped", max_waiting .. " firings wait for the one before them already", {})
  end
  waits[#waits + 1] = firing.trigger
  state.waits = waits
  move_on(firing, state)
  redis.call("ZADD", crons_due, "NX", now_ms + look_again_ms, firing.name .. "\n")
  return "waits"
end

local function begin(firing, state)
  local before = firing.overlap == "allow" and {} or unfinished_jobs(state)
  local waits_for_others = state.waits ~= nil and not firing.has_waited
  if firing.overlap == "skip" and #before > 0 then
    move_on(firing, state)
    return record(firing, state, "skipped", "job " .. before[1] .. " of the firing before has not ended", {})
  end
  if firing.overlap == "replace" then
    for _, id in ipairs(before) do
      ask_to_end(id, read(id), grace_s, woken)
    end
    before = unfinished_jobs(state)
  end
  if (firing.overlap == "queue" or firing.overlap == "replace") and (#before > 0 or waits_for_others) then
    return wait(firing, state)
  end
  local job_ids = {}
  for number = 1, firing.count do
    job_ids[number] = ARGV[firing.jobs_at + (number - 1) * EACH]
  end
  -- Jobs that are known were put there by this very firing, before the rest of what is remembered here was lost.
  if firing.count > 0 and redis.call("HEXISTS", jobs, job_ids[1]) == 0 then
    enter(firing.jobs_at, firing.count)
    is_any_new = true
  end
  move_on(firing, state)
  local told = record(firing, state, "fired", firing.reason, job_ids)
  for _, id in ipairs(job_ids) do
    before[#before + 1] = id
  end
  state.jobs = #before > 0 and before or nil
  return told
end

local function fire(firing)
  local state = cjson.decode(redis.call("HGET", states, firing.name) or "{}")
  if not is_open(firing, state) then
    return "gone"
  end
  local told
  if firing.state == "fired" then
    told = begin(firing, state)
  else
    move_on(firing, state)
    told = record(firing, state, firing.state, firing.reason, {})
  end
  redis.call("HSET", states, firing.name, cjson.encode(state))
  return told
end

local answer, at = {}, 5
while at <= #ARGV do
  local firing = read_firing(at)
  answer[#answer + 1] = fire(firing)
  at = firing.jobs_at + firing.count * EACH
end
if is_any_new then
  wake_nodes("queue")
end
for node in pairs(woken) do
  wake_nodes(node)
end
return answer
