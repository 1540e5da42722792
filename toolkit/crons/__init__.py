"""When a recurring job is due: expressions, time zones, policies, templates. Pure; the one room with cronsim."""
