"""crawlctl: ship Scrapy projects to many Scrapyd nodes and run them as one cluster."""
