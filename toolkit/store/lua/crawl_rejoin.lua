-- Let a worker go on after Redis came back older, with what it still has in hand.
-- KEYS: the crawl's
-- ARGV: worker, token, number, ttl_ms, crawl, plan (JSON), order, seen kind, seeds kind, items kind, fingerprints, max
--       deaths, bloom capacity of a shard, bloom bits, and of each entry: member, score, fingerprint or "", root
-- RETURNS: the new token
-- INCLUDES: crawl_seen
local worker, number, ttl_ms, crawl = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

if not load_state() then
  st.order, st.seen, st.seeds, st.items_kind, st.fingerprints = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  st.max_deaths, st.bloom_cap, st.bloom_bits = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
  st.created_ms = now_ms
  st.seen_epoch = string.format("%.0f", next_number())
end

local function is_in_other_hands(entry)
  for _, other in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    if other ~= worker and redis.call("HEXISTS", hands .. other, entry) == 1 then
      return true
    end
  end
  return false
end

local function remove_from(key, member)
  if st.order == "priority" then
    return redis.call("ZREM", key, member)
  end
  return redis.call("LREM", key, 1, member)
end

local function remove_where_it_waits(member)
  for more = 0, 1 do
    local each = with_deaths(member, string.byte(member, 9) % SEED + more)
    local domain = host_of(each)
    if remove_from(queue, each) > 0 or redis.call("ZREM", suspects, each) > 0 then
      return
    end
    if redis.call("ZSCORE", due, domain) and remove_from(domains .. domain, each) > 0 then
      st.parked = st.parked - 1
      return
    end
  end
end

for at = 15, #ARGV, 4 do
  local member, score, form, root = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local entry = string.sub(member, 1, 8)
  if redis.call("HEXISTS", hands .. worker, entry) == 0 and not is_in_other_hands(entry) then
    remove_where_it_waits(member)
    redis.call("HSET", hands .. worker, entry, score .. " " .. member)
  end
  if form ~= "" then
    is_new(form, root)
  end
end

local known = standing_of(worker)
local token = string.format("%.0f", math.max(next_number(), tonumber(ARGV[2]) + 1))
st.seq = math.max(st.seq, tonumber(token))
set_standing(worker, token, number, known and known.pages or 0, "-")
redis.call("ZADD", workers, now_ms + ttl_ms, worker)
redis.call("HSET", registry, crawl, ARGV[6])
redis.call("HSET", homes, worker, crawl)
save_state()
return token
