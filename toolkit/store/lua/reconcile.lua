-- Settle what is leased to a node under tokens that it does not know of.
-- KEYS: the queue's
-- ARGV: node, session, then the tokens that it knows of
-- RETURNS: a flat list of id, state now
-- INCLUDES: queue_rules
local node, session = ARGV[1], ARGV[2]
local known = {}
for at = 3, #ARGV do
  known[ARGV[at]] = true
end

local settled = {}
for _, id in ipairs(redis.call("ZRANGE", leases, 0, -1)) do
  local token = redis.call("HGET", owners, id)
  local owner, life = string.match(token or "", "^%d+:([^:]*):(.*)$")
  if owner == node and not known[token] then
    local job = read(id)
    disown(id, job)
    if life == session and not job.cancel_ms then
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
