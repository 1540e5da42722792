"""Where values come from: the inventory, scrapyd.conf, scrapy.cfg and the one option table."""
