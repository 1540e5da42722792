-- Deliver some of the items that wait for it because their pages brought very many.
-- KEYS: the crawl's
-- ARGV: none
-- RETURNS: how many pages have more
-- INCLUDES: crawl_rules
-- FLAGS: allow-oom
if not load_state() or st.outgoing == 0 then
  return 0
end
st.items = st.items + deliver_staged()
save_state()
return st.outgoing
