"""The pages, the HTTP API and their sign-in: `crawlctl web`. The one room with a web framework."""
