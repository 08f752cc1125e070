"""What each check says no to, in a few plain words; a table's notes explain it at length."""

from __future__ import annotations

IN_SHORT: dict[str, str] = {
    "requested-observed": "what ran is not what was asked for",
    "disturbed": "the step was compiled anew, or the allocator had to try again",
    "shared-cpu": "other processes took the host's cores",
    "throttled": "a limit on processor time held the process back",
    "stolen-time": "other guests took the machine's processors",
    "host-pace": "the host, which sets the pace, was slower than in another case of the run",
    "device": "the card's clocks were held down, or it was shared",
    "not-a-number": "a loss was NaN or infinite",
    "trains-differently": "the losses are not those of the first case of the kind",
    "flops": "more operations a second than the card can do",
    "mfu": "more than the card's peak",
    "bytes": "more bytes a second than the card can move",
    "backward-ratio": "backward and forward are not in the ratio of their arithmetic",
    "stability": "steps scatter",
    "few-samples": "the mean is a rough one for its few steps",
    "warming": "the first measured step was still cold",
    "drift": "steps became longer or shorter while they were measured",
    "unmet": "automatic warm-up or measuring ended at its limit",
    "launch-bound": "the card waits for the host",
    "incomplete": "a part of the profile is missing",
    "cliff": "far below the rate of smaller cases",
    "scaling": "quicker than a case with less work",
    "elsewhere": "measured on another machine or with other software",
}
