"""The refusals of Scrapyd 1.6 in its own words: what a simulated node, and one with the plug-in, say too."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: list[tuple[str, str, Mapping[str, str], str]] = [
    ("GET", "listversions", {}, "'project' parameter is required"),
    ("GET", "listspiders", {}, "'project' parameter is required"),
    ("GET", "listspiders", {"project": "none"}, "project 'none' not found"),
    ("GET", "listspiders", {"project": "small", "_version": "v9"}, "version 'v9' not found"),
    ("GET", "listjobs", {"project": "none"}, "project 'none' not found"),
    ("GET", "status", {}, "'job' parameter is required"),
    ("GET", "status", {"job": "x", "project": "none"}, "project 'none' not found"),
    ("POST", "addversion", {"version": "v1"}, "'project' parameter is required"),
    ("POST", "addversion", {"project": "small"}, "'version' parameter is required"),
    ("POST", "addversion", {"project": "small", "version": "v1"}, "'egg' parameter is required"),
    ("POST", "delversion", {"project": "small"}, "'version' parameter is required"),
    ("POST", "delversion", {"project": "small", "version": "v9"}, "version 'v9' not found"),
    ("POST", "delversion", {"project": "none", "version": "v9"}, "version 'v9' not found"),
    ("POST", "delproject", {}, "'project' parameter is required"),
    ("POST", "delproject", {"project": "none"}, "project 'none' not found"),
    ("POST", "schedule", {"spider": "alpha"}, "'project' parameter is required"),
    ("POST", "schedule", {"project": "small"}, "'spider' parameter is required"),
    ("POST", "schedule", {"project": "none", "spider": "alpha"}, "project 'none' not found"),
    ("POST", "schedule", {"project": "small", "spider": "gamma"}, "spider 'gamma' not found"),
    ("POST", "schedule", {"project": "small", "spider": "alpha", "_version": "v9"}, "version 'v9' not found"),
    (
        "POST",
        "schedule",
        {"project": "small", "spider": "alpha", "priority": "high"},
        "priority is invalid: could not convert string to float: b'high'",
    ),
    (
        "POST",
        "schedule",
        {"project": "small", "spider": "alpha", "setting": "novalue"},
        "ValueError: dictionary update sequence element #0 has length 1; 2 is required",
    ),
    ("POST", "cancel", {"project": "small"}, "'job' parameter is required"),
    ("POST", "cancel", {"project": "none", "job": "x"}, "project 'none' not found"),
    ("GET", "schedule", {}, "UnsupportedMethod: Expected one of [b'HEAD', b'OPTIONS', b'POST']"),
    ("POST", "listprojects", {}, "UnsupportedMethod: Expected one of [b'HEAD', b'OPTIONS', b'GET']"),
]
"""Method, endpoint, fields, and the message of the answer, which is a 200 all the same."""
