-- Lay a part of a job's log, and what is known of the log with it, if that is still what the bringer believes.
-- KEYS: log parts order ended sizes
-- ARGV: job, node, revision before (0: none), index (JSON), keep_ms, most bytes of all logs, is_ended, part's field or
--       "", part, fields that go ...
-- RETURNS: done | other | full
local log, parts, order, ended, sizes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local job, node, before, index = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local keep_ms, most, is_ended = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == "1"
local field, part = ARGV[8], ARGV[9]
local TOTAL = "*"
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local known = redis.call("HGET", log, node)
if (known and cjson.decode(known).revision or 0) ~= before then
  return "other"
end

local more = #index - (known and #known or 0)
local function lessen(name)
  local old = redis.call("HGET", parts, name)
  more = more - (old and #old or 0)
end
for at = 10, #ARGV do
  if ARGV[at] ~= field then
    lessen(ARGV[at])
  end
end
if field ~= "" then
  lessen(field)
  more = more + #part
end
-- What grows must fit; where there is no room, an ending is noted all the same.
local total = tonumber(redis.call("HGET", sizes, TOTAL) or 0)
if field ~= "" and more > 0 and total + more > most then
  return "full"
end

for at = 10, #ARGV do
  redis.call("HDEL", parts, ARGV[at])
end
if field ~= "" then
  redis.call("HSET", parts, field, part)
end
redis.call("HSET", log, node, index)
redis.call("HINCRBY", sizes, job, more)
redis.call("HINCRBY", sizes, TOTAL, more)
redis.call("ZADD", order, now_ms, job)
if is_ended then
  redis.call("ZADD", ended, now_ms, job)
else
  redis.call("ZREM", ended, job)
end
-- Should nobody be there to take it away and to count it, it goes by itself.
redis.call("PEXPIRE", log, keep_ms * 2)
redis.call("PEXPIRE", parts, keep_ms * 2)
return "done"
