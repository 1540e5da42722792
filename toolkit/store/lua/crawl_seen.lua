-- The seen set of a crawl, in its three kinds, which tells whether a fingerprint is new and remembers it.
-- KEYS: the crawl's
-- ARGV: each script's own
-- RETURNS: nothing by itself; it stands in front of the scripts that include it
-- INCLUDES: crawl_rules
--
-- Packed: sets of integers, which Redis keeps as eight bytes each while a set has at most 512 (set-max-intset-entries).
-- They grow by linear hashing: one set is split at a time, when there are more than LOAD to a set on the average, so
-- that no commit waits for a growth. A set's number is <root> + ROOTS * (<last digits of the member> mod 2^level).
-- Bloom: generations of shards of 2^23 bits; a full generation is followed by one of four times as many shards and half
-- the error, so that the sum stays under what was asked for.
local ROOTS, LOAD, MAX_SPLITS, SHARD_BITS = 1024, 230, 4, 8388608

local function digits(member)
  return tonumber(string.sub(member, -9))
end

local function bucket_of(root, member)
  local last = digits(member)
  local address = root + ROOTS * (last % 2 ^ st.seen_level)
  if address < st.seen_split then
    address = root + ROOTS * (last % 2 ^ (st.seen_level + 1))
  end
  return seen .. ":" .. st.seen_epoch .. ":" .. string.format("%.0f", address)
end

local function split_one_bucket()
  local size = ROOTS * 2 ^ st.seen_level
  local from, moved = st.seen_split, {}
  local prefix = seen .. ":" .. st.seen_epoch .. ":"
  local key, wanted = prefix .. string.format("%.0f", from), math.floor(from / ROOTS) + 2 ^ st.seen_level
  for _, member in ipairs(redis.call("SMEMBERS", key)) do
    if digits(member) % 2 ^ (st.seen_level + 1) == wanted then
      moved[#moved + 1] = member
    end
  end
  for at = 1, #moved, 1000 do
    local part = { unpack(moved, at, math.min(at + 999, #moved)) }
    redis.call("SADD", prefix .. string.format("%.0f", from + size), unpack(part))
    redis.call("SREM", key, unpack(part))
  end
  st.seen_split = st.seen_split + 1
  if st.seen_split == size then
    st.seen_level, st.seen_split = st.seen_level + 1, 0
  end
end

local function grow_packed()
  for _ = 1, MAX_SPLITS do
    if st.seen ~= "packed" or st.seen_count <= LOAD * (ROOTS * 2 ^ st.seen_level + st.seen_split) then
      return
    end
    split_one_bucket()
  end
end

local function shards_of(generation)
  return 4 ^ math.min(generation, 6)
end

local function bits_of(fingerprint, generation, verb)
  local place, first, step = struct.unpack(">I4I6I6", fingerprint)
  local shard = place % shards_of(generation)
  local command, at = { "BITFIELD", string.format("%s:%s:b%d:%.0f", seen, st.seen_epoch, generation, shard) }, 2
  for i = 0, st.bloom_bits + generation - 1 do
    -- Numbers below 2^53 reach Redis exactly as they are.
    local bit = (first + i * step + (i * i * i - i) / 6) % SHARD_BITS
    command[at + 1], command[at + 2], command[at + 3] = verb, "u1", bit
    at = at + 3
    if verb == "SET" then
      at = at + 1
      command[at] = "1"
    end
  end
  if verb == "SET" and redis.call("EXISTS", command[2]) == 0 then
    -- Its last bit first: a string that grows step by step is given twice the room.
    redis.call("SETBIT", command[2], SHARD_BITS - 1, 0)
  end
  local found = redis.call(unpack(command))
  for i = 1, #found do
    if found[i] == 0 then
      return false
    end
  end
  return true
end

local generations
local function is_new_in_bloom(fingerprint)
  if not generations then
    generations = {}
    for count in string.gmatch(st.bloom, "%d+") do
      generations[#generations + 1] = tonumber(count)
    end
    if #generations == 0 then
      generations[1] = 0
    end
  end
  local last = #generations
  -- What fits into one shard at half the error of the generation before takes so much less.
  local fits = st.bloom_cap * st.bloom_bits / (st.bloom_bits + last - 1) * shards_of(last - 1)
  if generations[last] >= fits then
    last = last + 1
    generations[last] = 0
  end
  for generation = 0, last - 2 do
    if bits_of(fingerprint, generation, "GET") then
      return false
    end
  end
  if bits_of(fingerprint, last - 1, "SET") then
    return false
  end
  generations[last] = generations[last] + 1
  st.bloom = table.concat(generations, ",")
  return true
end

-- `form` is, by kind: packed the member in digits (with its root beside), set 40 hexadecimal digits, bloom 20 bytes.
local function is_new(form, root)
  local added
  if st.seen == "packed" then
    added = redis.call("SADD", bucket_of(tonumber(root), form), form) == 1
  elseif st.seen == "set" then
    added = redis.call("SADD", seen, form) == 1
  else
    added = is_new_in_bloom(form)
  end
  if added then
    st.seen_count = st.seen_count + 1
  end
  return added
end
