-- Settle what is leased to a node under tokens that it does not know of.
-- KEYS: the queue's, then sessions
-- ARGV: node, session, asked_us (when it was asked, by a clock of the node that only rises), then the tokens that it
--       knows of
-- RETURNS: a flat list of id, state now
-- INCLUDES: queue_rules
local node, session = ARGV[1], ARGV[2]
local of_name = cjson.decode(redis.call("HGET", KEYS[26], node) or "{}")
-- What was stuck on the way until its node had asked anew knows nothing of the claims since.
if of_name.session ~= session or tonumber(ARGV[3]) < tonumber(of_name.asked_us or 0) then
  return {}
end
of_name.asked_us = ARGV[3]
redis.call("HSET", KEYS[26], node, cjson.encode(of_name))
local known = {}
for at = 4, #ARGV do
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
