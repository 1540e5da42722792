"""A claim as a node keeps it, for tests of what a node does with one."""

from __future__ import annotations

from toolkit.model.names import JobId, ProjectName, SpiderName, Token, VersionName
from toolkit.node.claims import Claim

CLAIM = Claim(
    job_id=JobId("job-1"),
    token=Token("7:node-1:life"),
    project=ProjectName("shop"),
    spider=SpiderName("books"),
    version=VersionName("v1"),
    attempt=1,
    begun_at=0.0,
    lease_s=10.0,
)
