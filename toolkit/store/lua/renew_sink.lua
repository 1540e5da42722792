-- Keep a sink's lease for another term, unless another has taken it since; a term of 0 gives it back.
-- KEYS: the alerts', then sink held
-- ARGV: name, token, term_ms
-- RETURNS: as take_sink | nil
-- INCLUDES: sink_rules
local sink, held = KEYS[6], KEYS[7]
local name, token, term_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not is_ours(sink, token) then
  return false
end
return lease(name, sink, held, token, term_ms)
