-- Keep a node's report as its sign of life, renew the leases of what it still owns, and tell it what has changed.
-- KEYS: the queue's, then nodes sessions draining releases clashes questions
-- ARGV: node, session, home, lease_ms, was_registered ("1" when an earlier beat of this session was answered), report
--       (JSON), room ("" or running/slots), held, then for each held job: id, token, progress (JSON or ""), then for
--       each ended one: id, token
-- RETURNS: {"clash", address} | {"ok", now_ms, drain, releases, live nodes, stale ids, ids and wishes, unheard ids,
--          number of questions that wait}
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local nodes, sessions, draining, releases, clashes = KEYS[26], KEYS[27], KEYS[28], KEYS[29], KEYS[30]
local node, session, home, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local known = redis.call("HGET", sessions, node)
if known then
  local other = cjson.decode(known)
  local beat_ms = tonumber(redis.call("ZSCORE", beats, node) or 0)
  local is_fresh = beat_ms > now_ms - (other.lease_ms or lease_ms)
  -- A new session of the same home is that node, restarted. But a session that was replaced and lives is one of two
  -- with the same home: a copied folder.
  local is_another = other.home ~= home or (other.session ~= session and ARGV[5] == "1")
  if is_another and is_fresh then
    redis.call("HSET", clashes, node, cjson.encode({ at_ms = now_ms, report = cjson.decode(ARGV[6]).address or "" }))
    return { "clash", cjson.decode(redis.call("HGET", nodes, node) or "{}").address or "" }
  end
end
redis.call("HSET", sessions, node, cjson.encode({ session = session, home = home, lease_ms = lease_ms }))
redis.call("HSET", nodes, node, ARGV[6])
redis.call("ZADD", beats, now_ms, node)
redis.call("HSET", clock, "lease_ms", lease_ms)

local is_draining = redis.call("HEXISTS", draining, node)
if ARGV[7] == "" or is_draining == 1 then
  redis.call("ZREM", room, node)
else
  redis.call("ZADD", room, ARGV[7], node)
end

local stale, wished, unheard = {}, {}, {}
local held = tonumber(ARGV[8])
for at = 9, 8 + 3 * held, 3 do
  local id = ARGV[at]
  if redis.call("HGET", owners, id) == ARGV[at + 1] then
    redis.call("ZADD", leases, now_ms + lease_ms, id)
    if ARGV[at + 2] ~= "" then
      redis.call("HSET", progress, id, ARGV[at + 2])
    end
    local wish = redis.call("HGET", wishes, id)
    if wish then
      wished[#wished + 1] = id
      wished[#wished + 1] = wish
    end
  elseif redis.call("HEXISTS", jobs, id) == 1 then
    -- A job that is not known at all is nobody else's either: it may go on to its end.
    stale[#stale + 1] = id
  end
end
for at = 9 + 3 * held, #ARGV, 2 do
  if redis.call("HGET", owners, ARGV[at]) == ARGV[at + 1] then
    unheard[#unheard + 1] = ARGV[at]
  end
end
local live = redis.call("ZCOUNT", beats, now_ms - lease_ms, "+inf")
local changes = tonumber(redis.call("GET", releases) or 0)
return { "ok", now_ms, is_draining, changes, live, stale, wished, unheard, redis.call("LLEN", KEYS[31]) }
