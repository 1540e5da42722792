-- Remember what states watched things are in; for each that was in another, append its event, all in one step.
-- KEYS: watched events
-- ARGV: max_events, then for each thing: its name, state, the state that it must be in ("": whatever it is; "-": none),
--       kind ("": no event), subject, about (JSON)
-- RETURNS: for each thing 1 when it was in another state, else 0
local watched, events = KEYS[1], KEYS[2]
local changed = {}
for at = 2, #ARGV, 6 do
  local name, state, was, kind = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local known = redis.call("HGET", watched, name) or "-"
  local is_change = known ~= state and (was == "" or was == known)
  if is_change then
    redis.call("HSET", watched, name, state)
    if kind ~= "" then
      local told = { "kind", kind, "subject", ARGV[at + 4], "about", ARGV[at + 5] }
      redis.call("XADD", events, "MAXLEN", "~", ARGV[1], "*", unpack(told))
    end
  end
  changed[#changed + 1] = is_change and 1 or 0
end
return changed
