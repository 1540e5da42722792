-- Let a worker go on after Redis came back older, with what it still has in hand.
-- KEYS: the crawl's
-- ARGV: worker, token, number, ttl_ms, crawl, plan (JSON), order, seen kind, seeds kind, items kind, fingerprints, max
--       deaths, bloom capacity of a shard, bloom bits, run ("" for none), how many budgets, and of each of them: domain,
--       budget; then of each entry: member, score, fingerprint or "", root
-- RETURNS: the new token
-- INCLUDES: crawl_seen
local worker, number, ttl_ms, crawl, plan = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]
local known_plan = redis.call("HGET", registry, crawl)
if known_plan and cjson.decode(plan).is_named then
  plan = with_owner_of(cjson.decode(known_plan), cjson.decode(plan), true)
end

local is_blank = not load_state()
if is_blank then
  begin(unpack(ARGV, 7, 14))
end
st.crawl = crawl
add_run(ARGV[15])
local first_entry = 17 + 2 * tonumber(ARGV[16])
if is_blank and redis.call("EXISTS", limits) == 0 then
  for at = 17, first_entry - 1, 2 do
    redis.call("HSET", limits, ARGV[at], ARGV[at + 1])
    st.limited = 1
  end
end
st.ttl_ms = math.max(st.ttl_ms, ttl_ms)
heard()

local function is_in_other_hands(entry)
  for _, other in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    if other ~= worker and redis.call("HEXISTS", hands .. other, entry) == 1 then
      return true
    end
  end
  return false
end

local function remove_where_it_waits(member)
  local entry, domain = string.sub(member, 1, 8), host_of(member)
  if redis.call("HDEL", dead, entry) + redis.call("HDEL", blocked, entry) > 0 then
    return true
  end
  -- How many died with it may have been counted on here, or may not have been yet.
  for deaths = 0, math.max(st.max_deaths, string.byte(member, 9) % SEED + 1) do
    local each = with_deaths(member, deaths)
    if redis.call("ZREM", queue, each) > 0 or redis.call("ZREM", suspects, each) > 0 then
      return true
    end
    if redis.call("ZSCORE", due, domain) and redis.call("ZREM", domains .. domain, each) > 0 then
      st.parked = st.parked - 1
      return true
    end
  end
  return false
end

-- The same seed may lie where it was taken from again: it is one and the same.
local function remove_seed(member)
  local value = string.sub(member, 10)
  if st.seeds == "set" then
    redis.call("SREM", seeds, value)
  elseif st.seeds == "zset" then
    redis.call("ZREM", seeds, value)
  else
    redis.call("LREM", seeds, 1, value)
  end
end

for at = first_entry, #ARGV, 4 do
  local member, score, form, root = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local entry = string.sub(member, 1, 8)
  -- A clock that is behind would give out once more what is in hand.
  st.seq = math.max(st.seq, (struct.unpack(">I8", entry)))
  local is_new_here = form ~= "" and is_new(form, root)
  if redis.call("HEXISTS", hands .. worker, entry) == 0 and not is_in_other_hands(entry) then
    -- What this Redis has never heard of was pushed after the time it is from. Unless its push came again already, or
    -- would not be held back by the seen set, it is kept; else who pushed it, or does its page again, brings it.
    local was_waiting = remove_where_it_waits(member)
    if is_seed(member) and not was_waiting then
      remove_seed(member)
    end
    if was_waiting or is_new_here or is_seed(member) or is_blank then
      hold(hands .. worker, score, member)
    end
  end
end

local known = standing_of(worker)
local token = string.format("%.0f", math.max(next_number(), tonumber(ARGV[2]) + 1))
st.seq = math.max(st.seq, tonumber(token))
-- Before its next commit says otherwise it may have more to send: what this Redis has forgotten.
set_standing(worker, token, number, known and known.pages or 0, "M")
redis.call("ZADD", workers, now_ms + ttl_ms, worker)
redis.call("HSET", registry, crawl, plan)
redis.call("HSET", homes, worker, crawl)
save_state()
return token
