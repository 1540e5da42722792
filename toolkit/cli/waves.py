"""What commands about rollouts in waves share: the options, the words on the way, and what to do where one is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from toolkit.cli import completion
from toolkit.cli.durations import seconds
from toolkit.model.errors import UsageError

if TYPE_CHECKING:
    from toolkit.cli.session import Session
    from toolkit.cluster.nodes import Nodes
    from toolkit.model.names import NodeName
    from toolkit.model.releases import NodeResult
    from toolkit.model.rollouts import GateRules, WaveRollout
    from toolkit.rollout.in_waves import Watch, WavesResult
    from toolkit.rollout.push import Cargo

WAVES_PANEL = "In waves"
CHECK_TIMEOUT = "10m"

CanaryOption = Annotated[
    int | None,
    typer.Option("--canary", metavar="N", min=1, help="Begin with so many nodes.", rich_help_panel=WAVES_PANEL),
]
WavesOption = Annotated[
    str | None,
    typer.Option(
        "--waves",
        metavar="SHARES",
        help="Then in shares of the others, each checked before the next: 10%,50%,100%.",
        rich_help_panel=WAVES_PANEL,
    ),
]
PauseOption = Annotated[
    str | None,
    typer.Option("--pause", metavar="DURATION", help="Wait after each wave: 90s, 5m.", rich_help_panel=WAVES_PANEL),
]
MaxFailuresOption = Annotated[
    str | None,
    typer.Option(
        "--max-failures",
        metavar="N|N%",
        help="So many nodes, of those tried so far, may fail.",
        show_default="0",
        rich_help_panel=WAVES_PANEL,
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="SPIDER",
        help="In each wave, run this spider of the new version on a node; it must finish with items.",
        autocompletion=completion.spiders,
        rich_help_panel=WAVES_PANEL,
    ),
]
CheckTimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--check-timeout",
        metavar="DURATION",
        help="How long the check may take.",
        show_default=CHECK_TIMEOUT,
        rich_help_panel=WAVES_PANEL,
    ),
]
CheckItemsOption = Annotated[
    int | None,
    typer.Option(
        "--check-items",
        metavar="N",
        min=0,
        help="How many items the check must bring.",
        show_default="1",
        rich_help_panel=WAVES_PANEL,
    ),
]
HoldOption = Annotated[
    bool,
    typer.Option(
        "--hold", help="When a wave fails, hold it there and ask, instead of undoing it.", rich_help_panel=WAVES_PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class WaveWishes:
    """What the command line says of waves; all of it is `None` or false for a deploy to all nodes at once."""

    canary: int | None = None
    waves: str | None = None
    pause: str | None = None
    max_failures: str | None = None
    check: str | None = None
    check_timeout: str | None = None
    check_items: int | None = None
    hold: bool = False

    @property
    def are_any(self) -> bool:
        """The deploy is to have gates."""
        return self != WaveWishes()

    @property
    def shares(self) -> tuple[float, ...]:
        """How much of the nodes has the release after each wave."""
        from toolkit.rollout.waves import EVERYBODY, parse_waves

        return EVERYBODY if self.waves is None else parse_waves(self.waves)

    def refuse_mixture(self, *, keep_going: bool) -> None:
        """Refuse what makes no sense together, before anything is built.

        Raises:
            UsageError: it says what.

        """
        if not self.are_any:
            return
        if keep_going:
            raise UsageError("--keep-going has no meaning in waves", hint="say how many may fail: --max-failures 5%")
        if self.check is None and (self.check_timeout is not None or self.check_items is not None):
            raise UsageError("--check-timeout and --check-items say how to check", hint="name a spider: --check SPIDER")
        if self.pause is not None and self.canary is None and len(self.shares) == 1:
            raise UsageError(
                "--pause is for between waves, and there is one only", hint="--canary 1, or --waves 50%,100%"
            )
        _ = self.shares, self.rules(("",) if self.check is None else (self.check,))

    def rules(self, spiders: tuple[str, ...]) -> GateRules:
        """Return what each wave has to show; the release has these spiders."""
        from toolkit.model.names import SpiderName
        from toolkit.model.rollouts import Allowance, GateRules, SmokeCheck
        from toolkit.rollout.smoke import check_spider
        from toolkit.rollout.waves import parse_allowance

        check = None
        if self.check is not None:
            spider = check_spider(self.check, [SpiderName(name) for name in spiders])
            items = 1 if self.check_items is None else self.check_items
            check = SmokeCheck(spider, float(seconds(self.check_timeout or CHECK_TIMEOUT)), items)
        return GateRules(
            failures=Allowance() if self.max_failures is None else parse_allowance(self.max_failures),
            check=check,
            pause_s=0.0 if self.pause is None else float(seconds(self.pause)),
            holds=self.hold,
        )


def roll_out(
    session: Session,
    nodes: Nodes,
    cargo: Cargo,
    wishes: WaveWishes,
    *,
    revision: str | None,
    steal: bool,
    is_whole: bool,
) -> None:
    """Deploy in waves: show how it gets on, what came of it, and end with the exit code that fits."""
    from toolkit.rollout import in_waves

    rules, shares = wishes.rules(cargo.spiders), wishes.shares

    def act(watch: Watch) -> WavesResult:
        return in_waves.begin(
            nodes,
            session.store,
            cargo,
            rules,
            canary=wishes.canary or 0,
            shares=shares,
            revision=revision,
            steal=steal,
            is_whole=is_whole,
            watch=watch,
        )

    session.printer.say(f"{cargo.project} {cargo.version}: {len(cargo.spiders)} spider(s), in waves")
    carry_on(session, nodes, act)


def planned_waves(
    session: Session, nodes: Nodes, cargo: Cargo, wishes: WaveWishes, *, is_whole: bool
) -> dict[NodeName, int] | None:
    """Return in which wave each node would be, counted from 1; nothing when no waves are wished."""
    from toolkit.rollout.in_waves import plan_waves

    if not wishes.are_any:
        return None
    wishes.rules(cargo.spiders)
    waves = plan_waves(nodes, session.store, canary=wishes.canary or 0, shares=wishes.shares, is_whole=is_whole)
    return {name: at for at, wave in enumerate(waves, start=1) for name in wave}


def carry_on(session: Session, nodes: Nodes, act: Callable[[Watch], WavesResult], *, is_undo: bool = False) -> None:
    """Work on a rollout in waves until it is over, or is to wait; a held one asks, where somebody is there.

    That it is undone in the end is a failure, unless that was asked for to begin with.
    """
    from toolkit.views.rollouts import deploy_view

    while True:
        ended = _watched(session, act)
        rollout = ended.rollout
        session.audit(nodes=sorted(rollout.reached()), detail=_audited(rollout))
        following = _ask(session, nodes, rollout)
        if following is None:
            break
        act = following
    session.printer.show(deploy_view(ended.result, rollout=rollout))
    _conclude(session, ended, is_undo=is_undo)


def _watched(session: Session, act: Callable[[Watch], WavesResult]) -> WavesResult:
    from toolkit.rollout.in_waves import InterruptedWavesError, Watch
    from toolkit.views.rollouts import deploy_view, steps_table

    steps: dict[NodeName, str] = {}
    done: dict[NodeName, NodeResult] = {}
    stage = [""]

    def on_stage(text: str) -> None:
        is_new_wave = text.startswith("wave") and "node(s)" in text
        stage[0] = text
        if is_new_wave:
            steps.clear()
            done.clear()
            session.printer.say(text)

    watch = Watch(steps.__setitem__, lambda result: done.__setitem__(result.node, result), on_stage)
    try:
        with session.printer.live(lambda: steps_table(list(steps), steps, done, stage=stage[0])):
            return act(watch)
    except InterruptedWavesError as interrupted:
        rollout = interrupted.ended.rollout
        session.audit(nodes=sorted(rollout.reached()), detail=_audited(rollout))
        session.printer.show(deploy_view(interrupted.ended.result, rollout=rollout))
        session.printer.say(f"{_standing(rollout)}; {rollout.project} runs the release that it ran before")
        session.printer.say(f"{_commands(rollout)} takes it back", style="yellow")
        raise session.interrupted() from None


def _ask(session: Session, nodes: Nodes, rollout: WaveRollout) -> Callable[[Watch], WavesResult] | None:
    """Return what the operator wants done about a held rollout; nothing when it shall stay, or nobody is there."""
    from toolkit.model.rollouts import RolloutState
    from toolkit.rollout import in_waves

    if rollout.state is not RolloutState.HELD or not session.printer.can_ask:
        return None
    answers = {"r": "try this wave again", "c": "continue all the same", "u": "undo it", "l": "leave it held"}
    answer = session.printer.choose(f"{_standing(rollout)}. What now?", answers, default="l")
    if answer == "u":
        return lambda watch: in_waves.undo(nodes, session.store, rollout.id, watch=watch)
    if answer in {"r", "c"}:
        accepts = answer == "c"
        return lambda watch: in_waves.resume(nodes, session.store, rollout.id, accepts=accepts, watch=watch)
    return None


def _conclude(session: Session, ended: WavesResult, *, is_undo: bool) -> None:
    from toolkit.cli.concluding import conclude
    from toolkit.model.errors import NodesFailedError, NodeTimeoutError, NodeUnreachableError, NothingReachableError
    from toolkit.model.rollouts import RolloutState

    rollout, result = ended.rollout, ended.result
    if rollout.state is RolloutState.DONE:
        conclude(session, result, "deploy")
        return
    if rollout.state is RolloutState.HELD:
        raise session.failed(NodesFailedError(_standing(rollout), hint=f"{_commands(rollout)} takes it back"))
    stuck = [each.node for each in result.results if each.step == "undo"]
    left = f"; it could not be taken off {', '.join(stuck[:5])}" if stuck else ""
    text = f"{rollout.project} {rollout.version} was undone: {rollout.why}{left}; the active release is as it was"
    if is_undo and not stuck:
        session.printer.say(text, style="green")
        return
    away = [error for error in result.errors if isinstance(error, (NodeUnreachableError, NodeTimeoutError))]
    is_nobody_there = len(result.results) == len(away) > 0
    hint = f"crawlctl rollouts show {rollout.id} tells what was found on the way"
    raise session.failed((NothingReachableError if is_nobody_there else NodesFailedError)(text, hint=hint))


def _standing(rollout: WaveRollout) -> str:
    from toolkit.rollout.unfinished import place_text

    what = f"the rollout {rollout.id} of {rollout.project} {rollout.version}"
    return f"{what} is {rollout.state.value}{place_text(rollout)}"


def _commands(rollout: WaveRollout) -> str:
    return f"crawlctl rollouts resume {rollout.id} finishes it, crawlctl rollouts undo {rollout.id}"


def _audited(rollout: WaveRollout) -> str:
    passed = sum(wave.state.value == "passed" for wave in rollout.waves)
    return f"rollout {rollout.id} {rollout.state.value}, {passed} of {len(rollout.waves)} wave(s) passed"
