"""The plug-in: runs inside Scrapyd, under Scrapyd's own file names, and is switched on by scrapyd.conf alone."""
