-- Record what is wished of an active job, and wake its node.
-- KEYS: the queue's
-- ARGV: id, wish (JSON with only the fields that change)
-- RETURNS: its state before | nil when it is not known
-- INCLUDES: queue_rules
local id = ARGV[1]
local job = read(id)
if not job then
  return nil
end
if is_active(job) then
  local wish = cjson.decode(redis.call("HGET", wishes, id) or "{}")
  for name, value in pairs(cjson.decode(ARGV[2])) do
    wish[name] = value
  end
  redis.call("HSET", wishes, id, cjson.encode(wish))
  wake_nodes(job.node)
end
return shown_state(id, job)
