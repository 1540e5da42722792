-- Note the last item that a sink has, hold for it what it has not read, and drop what all sinks have that are held for.
-- KEYS: items drains
-- ARGV: sink, the last item that was noted before ("": any), the last one that the sink has ("": as noted), its key
--       ("": not known), keep ("1"), hold_ms
-- RETURNS: the last item that is noted now, "1" if items come again before the last one that the sink has (else "0"), then
--          for each sink that has less its name and until when items are held for it, in ms ("0": no more, and what it
--          had not read was dropped)
-- FLAGS: allow-oom
local items, drains = KEYS[1], KEYS[2]
local sink, before, through, key, keeps = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1"
local NONE = "0-0"
local time = redis.call("TIME")
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function place_of(id)
  local ms, number = string.match(id, "^(%d+)%-(%d+)$")
  return tonumber(ms), tonumber(number)
end

local function is_before(one, other)
  local ms, number = place_of(one)
  local other_ms, other_number = place_of(other)
  return ms < other_ms or (ms == other_ms and number < other_number)
end

-- What is noted of a sink: the id of its last item, and until when items are held for it.
local function read(text)
  local id, until_ms = string.match(text or "", "^(%d+%-%d+) ?(%d*)$")
  return id or NONE, tonumber(until_ms) or 0
end

local function write(name, id, until_ms)
  redis.call("HSET", drains, name, string.format("%s %.0f", id, until_ms))
end

local function is_there(id)
  local found = redis.call("XRANGE", items, id, id)[1]
  if not found or key == "" then
    return found ~= nil
  end
  local known = id
  for at = 1, #found[2], 2 do
    if found[2][at] == "k" then
      known = found[2][at + 1]
    end
  end
  return known == key
end

local function has_more(after, last)
  return #redis.call("XRANGE", items, "(" .. after, last, "COUNT", 1) > 0
end

local noted = read(redis.call("HGET", drains, sink))
local newest = redis.call("XREVRANGE", items, "+", "-", "COUNT", 1)[1]
if newest and is_before(newest[1], noted) then
  -- The stream began anew, by a clock that is behind the one before.
  noted = NONE
end
-- After a failover to a server whose clock is behind, new items may get ids before the last one that the sink has. What
-- is noted here is as old as the stream, so nothing after it is passed over. The sink's own word counts only where it
-- fits both: the note is the one that it went on from, and the item is there.
local repeats = "0"
if string.find(through, "^%d+%-%d+$") then
  if through == NONE or ((before == "" or before == noted) and is_there(through)) then
    noted = through
  elseif has_more(noted, through) then
    repeats = "1"
  end
end
write(sink, noted, now_ms + tonumber(ARGV[6]))
local answer = { noted, repeats }
if keeps then
  return answer
end

local least, late = noted, {}
local all = redis.call("HGETALL", drains)
for at = 1, #all, 2 do
  local other, id, until_ms = all[at], read(all[at + 1])
  if until_ms > 0 and is_before(id, noted) and has_more(id, noted) then
    if until_ms <= now_ms then
      late[other] = id
    else
      answer[#answer + 1] = other
      answer[#answer + 1] = string.format("%.0f", until_ms)
      least = is_before(id, least) and id or least
    end
  end
end
for other, id in pairs(late) do
  if is_before(id, least) and has_more(id, least) then
    write(other, id, 0)
    answer[#answer + 1] = other
    answer[#answer + 1] = "0"
  end
end
if least ~= NONE then
  local ms, number = place_of(least)
  redis.call("XTRIM", items, "MINID", string.format("%.0f-%.0f", ms, number + 1))
end
return answer
