"""Settings of both spiders; https://docs.scrapy.org/en/latest/topics/settings.html says what each may be."""

BOT_NAME = "shop"
SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

USER_AGENT = "shop (a sample crawler)"
ROBOTSTXT_OBEY = True

# The shop is our own and on this machine: no need to be gentle. For a stranger's site, set DOWNLOAD_DELAY.
CONCURRENT_REQUESTS = 16
CONCURRENT_REQUESTS_PER_DOMAIN = 16
AUTOTHROTTLE_ENABLED = False
DOWNLOAD_TIMEOUT = 15

ITEM_PIPELINES = {
    "shop.pipelines.OncePerSkuPipeline": 100,
}
FEED_EXPORT_ENCODING = "utf-8"

LOG_LEVEL = "INFO"
LOGSTATS_INTERVAL = 5.0

# Nobody logs in to a crawl here: neither port need be open.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
