-- Keep an egg and offer its release to the nodes.
-- KEYS: egg offers changes digests
-- ARGV: name (project and version), release (JSON), digest, content
-- RETURNS: 1
redis.call("SET", KEYS[1], ARGV[4])
redis.call("SADD", KEYS[4], ARGV[3])
if redis.call("HGET", KEYS[2], ARGV[1]) ~= ARGV[2] then
  redis.call("HSET", KEYS[2], ARGV[1], ARGV[2])
  redis.call("INCR", KEYS[3])
end
return 1
