"""Runs inside each Scrapy process, under Scrapy's own file names; it must stay lean."""
