-- Hold, release, re-prioritise or move pending jobs; their age keeps counting.
-- KEYS: the queue's
-- ARGV: what ("hold", "release", "priority", "place"), value (a number; a place or ""), then the ids
-- RETURNS: the ids of those that are as wished now
-- INCLUDES: queue_rules
local what, value = ARGV[1], ARGV[2]
local changed = {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local job = read(id)
  if job and is_pending(job) then
    step_out(id, job)
    if what == "hold" or what == "place" then
      -- The node that it was taken from may not have it back any more.
      job.token = nil
    end
    if what == "hold" then
      job.is_held = true
    elseif what == "release" then
      job.is_held, job.due_ms = nil, nil
    elseif what == "priority" then
      job.priority = tonumber(value)
    else
      -- The place is the last part of a line's name (`line_name` in model/queue.py); the others stay as they were written.
      job.line = string.gsub(job.line, '"[^"]*"%]$', '"' .. value .. '"]')
      job.place = value ~= "" and value or nil
    end
    line_up(id, job)
    write(id, job)
    changed[#changed + 1] = id
  end
end
if #changed > 0 then
  wake_nodes("queue")
end
return changed
