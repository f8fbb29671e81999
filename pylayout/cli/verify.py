"""`pylayout verify`: every implementation of every op on a device, checked at the sizes that networks have."""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

from .common import add_device, add_threads, apply_threads, check_device, check_folder, minutes, positive, seed
from .errors import UsageError
from .progress import Progress
from .terminal import Table, style

__all__ = ["add", "run"]

_EXAMPLES = """\
examples:
  pylayout verify --minutes 10                        all ops on the cpu, in a random order
  pylayout verify --device opencl:0 --state gpu.json  on a GPU; the same command goes on where it was stopped
  pylayout verify --ops conv2d,conv_transpose2d --checks 500
  pylayout verify --case 'CASE'                       one case again, as a failure prints it
The exit code is 1 if any result is wrong. docs/explanation/correctness.md says what is checked, and what the figures
mean.
"""


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "verify",
        help="check every implementation of every op against exact results, at real sizes",
        description="Run every candidate of every op on a device, not only the one that would be chosen, and compare\n"
        "its results with sums in float64: for a new device or driver, or another oneDNN (PYLAYOUT_ONEDNN).",
        epilog=_EXAMPLES,
    )
    add_device(parser)
    add_threads(parser)
    parser.add_argument("--ops", metavar="OP,OP", default="", help="these ops alone (default: all)")
    parser.add_argument("--providers", metavar="NAME,NAME", default="", help="of onednn, host, opencl (default: all)")
    parser.add_argument("--minutes", type=minutes, metavar="M", help="how long (default 10, without --checks)")
    parser.add_argument("--checks", type=positive, metavar="N", help="how many runs of candidates")
    parser.add_argument(
        "--seed", type=seed, metavar="N", help="of the order, the random cases and the values (default: today's)"
    )
    parser.add_argument(
        "--sources", choices=("all", "networks", "random"), default="all", help="where cases come from (default: all)"
    )
    parser.add_argument("--state", metavar="FILE", help="keep the state there, and go on from it if it exists")
    parser.add_argument("--math", choices=("fp32", "tf32"), help="how exact products of f32 must be (default fp32)")
    parser.add_argument("--every-point", action="store_true", help="also what only `pylayout tune` tries")
    parser.add_argument("--case", metavar="JSON", help="this case alone, candidate by candidate")
    parser.set_defaults(run=run)


def _settings(options: argparse.Namespace) -> Any:
    from ..calls import schemas
    from ..verify import Settings

    ops = tuple(sorted(name for name in options.ops.split(",") if name))
    for name in ops:
        if name not in schemas():
            raise UsageError(f"--ops: there is no op {name!r}; `pylayout query --list` lists them")
    providers = tuple(sorted(name for name in options.providers.split(",") if name))
    for name in providers:
        if name not in ("host", "onednn", "opencl"):
            raise UsageError(f"--providers: there is no provider {name!r}, expected some of host, onednn, opencl")
    number = int(datetime.date.today().strftime("%Y%m%d")) if options.seed is None else options.seed
    return Settings(options.device, number, ops, providers, options.every_point, options.sources)


def run(options: argparse.Namespace) -> Any:
    import pylayout

    check_folder("--state", options.state)
    apply_threads(options)
    check_device(options.device)
    if options.math:
        pylayout.configure(math=options.math)
    pylayout.configure(tune="off")
    return _one(options) if options.case else _many(options)


def _case(text: str) -> Any:
    """The case of --case."""
    from ..calls import schemas
    from ..verify import Case

    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--case: {error}; expected JSON as a failure prints it") from None
    data = data if isinstance(data, dict) else {}
    op = data.get("op")
    if not isinstance(op, str) or not isinstance(data.get("inputs"), list):
        expected = '{"op": "relu", "inputs": ["f32:1x8x4x4"], …}'
        raise UsageError(
            f"--case: {text} has no op or no list of inputs, expected JSON as a failure prints it: {expected}"
        )
    if op not in schemas():
        raise UsageError(f"--case: there is no op {op!r}; `pylayout query --list` lists them")
    if not isinstance(data.get("attributes", {}), dict):
        raise UsageError(f"--case: attributes is {data['attributes']!r}, expected an object")
    try:
        case = Case.from_json(data)
        case.specs()
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"--case: {error}; expected JSON as a failure prints it") from None
    return case


def _one(options: argparse.Namespace) -> Any:
    from ..verify import check_case

    case = _case(options.case)
    try:
        checked = check_case(case, options.device, options.every_point)
    except (LookupError, TypeError, AssertionError) as error:  # of a call that no failure printed
        why = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"--case: {case.key} cannot be checked ({why}); expected JSON as a failure prints it"
        ) from error
    table = Table(
        ("", "provider", "implementation", "inputs", "outputs", "error", "of bound", "ms"),
        right=("error", "of bound", "ms"),
    )
    for outcome in checked.outcomes:
        table.add(
            "wrong" if outcome.wrong else "" if outcome.prepared else "none",
            outcome.provider,
            outcome.implementation,
            " ".join(outcome.inputs),
            " ".join(outcome.outputs),
            f"{outcome.error:.2e}",
            f"{outcome.ratio:.3g}",
            f"{outcome.ms:.3f}",
            styles=("red",) if outcome.wrong else (),
        )
    print(f"{case.key}\n{checked.positions} exact values\n")
    table.print()
    for outcome in checked.outcomes:
        for damage in outcome.damage:
            print(f"{outcome.provider} {outcome.implementation}: {damage}")
    options.exit_code = int(bool(checked.wrong))
    return {"case": case.to_json(), "outcomes": [outcome.to_json() for outcome in checked.outcomes]}


def _many(options: argparse.Namespace) -> Any:
    from ..verify import Session, summary_rows

    settings = _settings(options)
    if options.state:
        try:
            session = Session.resume(settings, Path(options.state))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"--state: {error}") from None
    else:
        session = Session(settings)
    minutes = options.minutes or (float("inf") if options.checks or options.sources == "networks" else 10.0)
    interrupted = False
    with Progress(options.progress) as progress:
        try:
            session.run(minutes, options.checks, lambda what, share: progress.update(what, share, 1))
        except KeyboardInterrupt:
            session.save()
            interrupted = True
    rows = summary_rows(session)
    _print(session, rows)
    if interrupted and options.state:
        print("interrupted: the same command goes on from here")
    options.exit_code = 130 if interrupted else int(bool(session.failures))
    return {
        **session.to_json(),
        "rows": [{**row, "ratio": _finite(row["ratio"]), "error": _finite(row["error"])} for row in rows],
    }


def _finite(value: float) -> float | str:
    return value if abs(value) < float("inf") else str(value)


def _print(session: Any, rows: list[dict[str, Any]]) -> None:
    device = session.settings.device
    print(
        style(f"{session.checks} checks of {len(rows)} implementations on {device}", "bold")
        + f", seed {session.settings.seed}, {session.seconds / 60:.1f} min, {session.positions} exact values\n"
    )
    table = Table(
        ("provider", "implementation", "op", "checks", "wrong", "of bound", "error", "the worst"),
        right=("checks", "wrong", "of bound", "error"),
    )
    for row in rows:
        table.add(
            row["provider"],
            row["implementation"],
            row["op"],
            str(row["checks"]),
            str(row["wrong"]),
            f"{row['ratio']:.3g}",
            f"{row['error']:.1e}",
            row["case"],
            styles=("red",) if row["wrong"] else (),
        )
    table.print()
    if not session.failures:
        print(style("\nnothing is wrong", "green"))
        return
    print(style(f"\n{len(session.failures)} wrong results:", "red", "bold"))
    for failure in session.failures[:20]:
        candidate = failure.get("candidate", {})
        print(
            f"\n{failure['op']}: {candidate.get('provider', '')} {candidate.get('implementation', '')} "
            f"({' '.join(candidate.get('inputs', []))})\n  {failure['problem']}\n"
            f"  --case '{json.dumps(failure['case'])}'"
        )
    if len(session.failures) > 20:
        print(f"\nand {len(session.failures) - 20} more: --json lists all")
