-- Keep a node's report as its sign of life, renew the leases of what it still owns, and tell it what has changed.
-- KEYS: the queue's, then nodes sessions draining releases clashes questions
-- ARGV: node, session, home, lease_ms, was_registered ("1" when an earlier beat of this session was answered), report
--       (JSON), room ("" or running/slots), when Redis last came back as this session has heard ("" at its first beat),
--       held, then for each held job: id, token, progress (JSON or ""), the grace of its cancel in seconds or "" where
--       the node knows of none; then for each ended one: id, token
-- RETURNS: {"clash", address} | {"ok", now_ms, drain, releases, live nodes, stale tokens, tokens and wishes, unheard
--          tokens, tokens of unknown jobs, tokens taken up again, number of questions that wait, when Redis came back}
-- INCLUDES: queue_rules
-- FLAGS: allow-oom
local nodes, sessions, draining, releases, clashes = KEYS[26], KEYS[27], KEYS[28], KEYS[29], KEYS[30]
local FORGOTTEN_LEASES = 5 -- more than `REMEMBERED_LEASES` of node/delivery.py
local node, session, home, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local known = redis.call("HGET", sessions, node)
local asked_us
-- A node that was answered before and has no session here: this server has lost it, however it came to that.
local back_ms = returned_ms(lease_ms, ARGV[8] ~= "" and (known and tonumber(ARGV[8]) or now_ms) or nil)
if known then
  local other = cjson.decode(known)
  local beat_ms = tonumber(redis.call("ZSCORE", beats, node) or 0)
  -- A session that has said nothing since Redis came back may be one that was replaced in a time that is forgotten.
  local is_fresh = beat_ms > now_ms - (other.lease_ms or lease_ms) and beat_ms >= back_ms
  -- A new session of the same home is that node, restarted. But a session that was replaced and lives is one of two
  -- with the same home: a copied folder.
  local is_another = other.home ~= home or (other.session ~= session and ARGV[5] == "1")
  if is_another and is_fresh then
    redis.call("HSET", clashes, node, cjson.encode({ at_ms = now_ms, report = cjson.decode(ARGV[6]).address or "" }))
    return { "clash", cjson.decode(redis.call("HGET", nodes, node) or "{}").address or "" }
  end
  asked_us = other.session == session and other.asked_us or nil
end
local of_name = { session = session, home = home, lease_ms = lease_ms, asked_us = asked_us }
redis.call("HSET", sessions, node, cjson.encode(of_name))
redis.call("HSET", nodes, node, ARGV[6])
redis.call("ZADD", beats, now_ms, node)
-- The longest lease of the nodes that live: one that is silent for as long leaves the place to the next.
local longest = redis.call("HMGET", clock, "lease_ms", "lease_at_ms")
local longest_ms = tonumber(longest[1] or 0)
if lease_ms >= longest_ms or math.abs(now_ms - tonumber(longest[2] or 0)) > longest_ms then
  redis.call("HSET", clock, "lease_ms", lease_ms, "lease_at_ms", now_ms)
end

local is_draining = redis.call("HEXISTS", draining, node)
if ARGV[7] == "" or is_draining == 1 then
  redis.call("ZREM", room, node)
else
  redis.call("ZADD", room, ARGV[7], node)
end

local stale, wished, unheard, unknown, taken_up = {}, {}, {}, {}, {}
local held = tonumber(ARGV[9])
for at = 10, 9 + 4 * held, 4 do
  local id, token = ARGV[at], ARGV[at + 1]
  local is_ours = redis.call("HGET", owners, id) == token
  if not is_ours then
    local job = read(id)
    if not job then
      -- Nobody else's either: it may go on to its end.
      unknown[#unknown + 1] = token
    elseif holds(id, job, token, lease_ms) then
      is_ours = true
      taken_up[#taken_up + 1] = token
    else
      stale[#stale + 1] = token
    end
  end
  if is_ours then
    redis.call("ZADD", leases, now_ms + lease_ms, id)
    if ARGV[at + 2] ~= "" then
      redis.call("HSET", progress, id, ARGV[at + 2])
    end
    local wish = redis.call("HGET", wishes, id)
    if ARGV[at + 3] ~= "" and not (wish and cjson.decode(wish).cancel_grace_s) then
      ask_to_end(id, read(id), tonumber(ARGV[at + 3]), {})
      wish = redis.call("HGET", wishes, id)
    end
    if wish then
      wished[#wished + 1] = token
      wished[#wished + 1] = wish
    end
  end
end
-- Only a Redis that came back lately may have forgotten what it was told.
local is_forgetful = now_ms - back_ms < FORGOTTEN_LEASES * lease_ms
for at = 10 + 4 * held, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  if redis.call("HGET", owners, id) == token then
    unheard[#unheard + 1] = token
  elseif is_forgetful then
    local job = read(id)
    if not job then
      unknown[#unknown + 1] = token
    elseif holds(id, job, token, lease_ms) then
      unheard[#unheard + 1] = token
    end
  end
end
local live = redis.call("ZCOUNT", beats, now_ms - lease_ms, "+inf")
local changes = tonumber(redis.call("GET", releases) or 0)
local questions = redis.call("LLEN", KEYS[31])
return {
  "ok", now_ms, is_draining, changes, live, stale, wished, unheard, unknown, taken_up, questions, back_ms,
}
