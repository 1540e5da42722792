-- Deliver some of the items that wait for it because their pages brought very many.
-- KEYS: the crawl's
-- ARGV: none
-- RETURNS: how many pages have more; 0 when nothing could be delivered
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
if not load_state() or st.outgoing == 0 then
  return 0
end
local count = deliver_staged()
st.items = st.items + count
save_state()
return count > 0 and st.outgoing or 0
