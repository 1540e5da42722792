-- Find the next jobs that pass a filter, newest first, among at most so many that are looked at; nothing is changed.
-- The place to go on from is the last job looked at in each index, with its score should it have left that since.
-- The other index may be left out.
-- KEYS: jobs orders progress index other_index
-- ARGV: most to look at, how many to find, how many to leave out first, since (microseconds), filter (JSON), places (JSON)
-- RETURNS: ids, how many are still to be left out, places (JSON; empty when there is nothing more)
local jobs, orders, progress = KEYS[1], KEYS[2], KEYS[3]
local most, limit, skip, since = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local wanted, places = cjson.decode(ARGV[5]), cjson.decode(ARGV[6])
local AT_ONCE = 500

-- Return the rank of the first job behind a place.
local function rank_behind(index, place)
  if not place then
    return 0
  end
  local rank = redis.call("ZREVRANK", index, place.id)
  return rank and rank + 1 or redis.call("ZCOUNT", index, "(" .. place.score, "+inf")
end

-- Return the next ids of an index and their scores. What is too old is passed over, but for what has no time (score 0).
local function page(index, place)
  local rank = rank_behind(index, place)
  -- The second value tells that the page is only a part of what the index has.
  if since > 0 then
    local young, dated = redis.call("ZCOUNT", index, since, "+inf"), redis.call("ZCOUNT", index, "(0", "+inf")
    if rank < young then
      return redis.call("ZREVRANGE", index, rank, math.min(rank + most, young) - 1, "WITHSCORES"), true
    end
    rank = math.max(rank, dated)
  end
  return redis.call("ZREVRANGE", index, rank, rank + most - 1, "WITHSCORES"), false
end

local function crawl_of(id, job, body)
  local settings = job.settings
  if not settings and job.line and not job.crawl then
    local order = redis.call("HGET", orders, id)
    settings = order and string.find(order, "FRONTIER_CRAWL", 1, true) and cjson.decode(order).settings
  end
  local named = job.crawl or (type(settings) == "table" and settings.FRONTIER_CRAWL)
  return named and named ~= "" and named or job.spider
end

local function state_of(id, job)
  if job.state == "running" and wanted.tells_paused then
    local said = redis.call("HGET", progress, id)
    return said and cjson.decode(said).state == "paused" and "paused" or job.state
  end
  return job.state
end

local function passes(id, body, score)
  for _, needle in ipairs(wanted.needles) do
    if not string.find(body, needle, 1, true) then
      return false
    end
  end
  local can_be_read, job = pcall(cjson.decode, body)
  if not can_be_read or type(job) ~= "table" then
    -- Whoever reads it says what is wrong.
    return true
  end
  local seen_ms = job.scheduled_ms or job.started_ms or job.ended_ms
  return (not wanted.spider or job.spider == wanted.spider)
    and (not wanted.project or job.project == wanted.project)
    and (not wanted.nodes or (job.node and wanted.nodes[job.node]))
    and (not wanted.crawl or crawl_of(id, job, body) == wanted.crawl)
    and (not wanted.states or wanted.states[state_of(id, job)])
    and (since == 0 or not seen_ms or seen_ms * 1000 >= since)
end

-- Lay the pages of both indexes into one, the newest first; of the same time the greatest id. What follows the end of a
-- page that is only a part may come before the rest of the other.
local pages, ats, parts, is_cut = {}, {}, {}, false
for at, index in ipairs({ KEYS[4], KEYS[5] }) do
  pages[at], parts[at] = page(index, places[at])
  ats[at] = 1
end
local function is_at_end(one)
  return pages[one] and parts[one] and not pages[one][ats[one]]
end
local function is_before(one, other)
  if not one or not pages[one][ats[one]] then
    return false
  end
  if not pages[other][ats[other]] then
    return true
  end
  local score, score_there = tonumber(pages[one][ats[one] + 1]), tonumber(pages[other][ats[other] + 1])
  return score > score_there or (score == score_there and pages[one][ats[one]] > pages[other][ats[other]])
end
local looked, sources = {}, {}
while #looked < most do
  if is_at_end(1) or is_at_end(2) then
    is_cut = true
    break
  end
  local next_page = pages[2] and is_before(2, 1) and 2 or 1
  local id = pages[next_page][ats[next_page]]
  if not id then
    break
  end
  looked[#looked + 1] = { id = id, score = pages[next_page][ats[next_page] + 1] }
  sources[#sources + 1] = next_page
  ats[next_page] = ats[next_page] + 2
end

local found, bodies, is_full = {}, nil, false
for at, each in ipairs(looked) do
  if wanted.is_all then
    bodies = nil
  elseif (at - 1) % AT_ONCE == 0 then
    local some = {}
    for there = at, math.min(at + AT_ONCE - 1, #looked) do
      some[#some + 1] = looked[there].id
    end
    bodies = redis.call("HMGET", jobs, unpack(some))
  end
  local body = bodies and bodies[(at - 1) % AT_ONCE + 1]
  if wanted.is_all or (body and passes(each.id, body, each.score)) then
    if skip > 0 then
      skip = skip - 1
    else
      found[#found + 1] = each.id
    end
  end
  places[sources[at]] = each
  if #found >= limit then
    is_full = true
    break
  end
end
local is_more = is_full or is_cut or #looked >= most
return { found, skip, is_more and #looked > 0 and cjson.encode(places) or "" }
