"""What a script with python-scrapyd-api does, one node after the other: `python one_by_one.py DOING URL...`."""

import sys

from scrapyd_api import ScrapydAPI


def _status(node: ScrapydAPI) -> None:
    for project in node.list_projects():
        node.list_versions(project)
        node.list_jobs(project)


def _schedule(node: ScrapydAPI) -> None:
    node.schedule("shop", "prices")


def _jobs(node: ScrapydAPI) -> None:
    node.list_jobs("shop")


if __name__ == "__main__":
    doing = {"status": _status, "schedule": _schedule, "jobs": _jobs}[sys.argv[1]]
    for url in sys.argv[2:]:
        doing(ScrapydAPI(url))
