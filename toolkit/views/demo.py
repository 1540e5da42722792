"""How the demo's result is shown."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.model.jobs import Job
from toolkit.model.releases import DeployResult
from toolkit.views.contract import job_row
from toolkit.views.jobs import jobs_table, utc_now
from toolkit.views.rollouts import deploy_view
from toolkit.views.view import View


def demo_view(deployed: DeployResult, jobs: Sequence[Job], *, seconds: float) -> View:
    """Show the jobs with pages, items and outcome; programs get the deploy beside them."""
    data = {"deploy": deploy_view(deployed).data, "jobs": [job_row(job) for job in jobs], "seconds": round(seconds, 1)}
    return View(data, lambda: jobs_table(jobs, now=utc_now()))
