-- Settle what is leased to a node under tokens that it does not know of.
-- KEYS: the queue's, then sessions
-- ARGV: node, session, then the tokens that it knows of
-- RETURNS: a flat list of id, state now
-- INCLUDES: queue_rules
local node, session = ARGV[1], ARGV[2]
local owner_of_name = redis.call("HGET", KEYS[26], node)
if not owner_of_name or cjson.decode(owner_of_name).session ~= session then
  return {}
end
local known = {}
for at = 3, #ARGV do
  known[ARGV[at]] = true
end

local of_this_life = ":" .. node .. ":" .. session
local settled = {}
local owned = redis.call("HGETALL", owners)
for at = 1, #owned, 2 do
  local id, token = owned[at], owned[at + 1]
  -- A token names its node. Reading every job of a large cluster would keep Redis busy, just when all nodes come back.
  local job = not known[token] and string.find(token, ":" .. node .. ":", 1, true) and read(id)
  if job and job.node == node then
    disown(id, job)
    if string.sub(token, -#of_this_life) == of_this_life and not job.cancel_ms then
      job.attempt = job.attempt - 1
      return_to_line(id, job, "the answer to the claim was lost")
    else
      requeue(id, job, node .. " was restarted and has no process of it", true)
    end
    settled[#settled + 1] = id
    settled[#settled + 1] = job.state
  end
end
if #settled > 0 then
  wake_nodes("queue")
end
return settled
