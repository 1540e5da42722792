"""Acting on many nodes: Scrapyd's API, fan-out, schedule, cancel, list, logs, snapshot."""
