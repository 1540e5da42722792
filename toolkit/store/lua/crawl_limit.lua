-- Set the budget of a domain, or take it away, from this moment on.
-- KEYS: the crawl's
-- ARGV: domain or "*", budget ("" to take it away)
-- RETURNS: 1
-- INCLUDES: crawl_rules
load_state()
if ARGV[2] == "" then
  redis.call("HDEL", limits, ARGV[1])
else
  redis.call("HSET", limits, ARGV[1], ARGV[2])
end
st.limited = redis.call("EXISTS", limits)
redis.call("DEL", budgets)
if st.limited == 1 then
  for _, worker in ipairs(redis.call("ZRANGE", workers, 0, -1)) do
    for _, held in ipairs(redis.call("HVALS", hands .. worker)) do
      local _, member = split_held(held)
      local domain = host_of(member)
      local budget = not is_seed(member) and budget_of(domain)
      if budget and budget[2] > 0 then
        redis.call("HINCRBY", budgets, "#" .. domain, 1)
      end
    end
  end
end
for _, domain in ipairs(redis.call("ZRANGE", due, 0, -1)) do
  redis.call("ZADD", due, now_ms, domain)
end
if redis.call("EXISTS", state) == 1 then
  save_state()
end
return 1
