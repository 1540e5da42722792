-- How new jobs get into the queue; it is put before a script that says `INCLUDES: enqueue_rules`.
-- KEYS: the queue's
-- ARGV: the script's own; each new job takes EACH of them: id, score, facts (JSON without its place in the order), order
--       (JSON), line, priority, likeness, due_ms or "", is_held ("1" or "")
-- RETURNS: nothing
-- INCLUDES: kept_rules
local EACH = 9

-- Put the jobs of these arguments into the queue; none of them may be known. The nodes are to be woken afterwards.
local function enter(from, count)
  if count == 0 then
    return
  end
  -- Ten thousand jobs shall not keep Redis busy: what can be said of many at once is gathered, and no JSON is read.
  local gathered = {}
  local function gather(command, key, one, other)
    local batch = gathered[command .. key]
    if not batch then
      batch = { command, key }
      gathered[command .. key] = batch
    end
    batch[#batch + 1], batch[#batch + 2] = one, other
  end

  redis.call("HINCRBY", clock, "open", count)
  local seq = redis.call("HINCRBY", clock, "seq", count) - count
  -- A claim from before was of another job, of which only the id was the same.
  returned_ms(0)
  local begin = string.format('{"last_claim":%s,"ready_ms":%d,"seq":', redis.call("GET", tokens) or "0", now_ms)
  for at = from, from + count * EACH - 1, EACH do
    local id, line, due_ms = ARGV[at], ARGV[at + 4], tonumber(ARGV[at + 7])
    seq = seq + 1
    gather("HSET", jobs, id, string.format("%s%d,%s", begin, seq, string.sub(ARGV[at + 2], 2)))
    gather("HSET", orders, id, ARGV[at + 3])
    gather("ZADD", unfinished, ARGV[at + 1], id)
    gather("ZADD", ids, 0, id)
    redis.call("HINCRBY", same, ARGV[at + 6], 1)
    local is_held = ARGV[at + 8] ~= ""
    if not is_held and due_ms and due_ms > now_ms then
      gather("ZADD", delayed, due_ms, id)
    elseif not is_held then
      gather("ZADD", line_prefix .. line, -tonumber(ARGV[at + 5]) * 1e12 + seq, id)
      redis.call("SADD", lines, line)
    end
  end
  for _, batch in pairs(gathered) do
    redis.call(unpack(batch))
  end
end
