-- Append a piece to an answer, as long as somebody waits for it and not too much does.
-- KEYS: asker answer
-- ARGV: piece, most pieces that may wait, ttl_ms
-- RETURNS: "taken" | "full" | "gone"
local asker, answer = KEYS[1], KEYS[2]
if redis.call("EXISTS", asker) == 0 then
  return "gone"
end
if redis.call("LLEN", answer) >= tonumber(ARGV[2]) then
  return "full"
end
redis.call("RPUSH", answer, ARGV[1])
redis.call("PEXPIRE", answer, ARGV[3])
return "taken"
