"""What the real compiler says of the kernels that a test launched in the simulator."""

from __future__ import annotations

from grader import verify
from grader.checks.trial import Trial
from grader.sandbox.client import Outcome, Student
from grader.sandbox.compiling import Compiler
from grader.scorecard import Check, Verdict
from grader.seen import RefusedSeen


def refused(trial: Trial, student: Student, outcome: Outcome) -> Check | None:
    """A kernel would not run on the course's GPU; None if all would, or nobody can tell here."""
    compiler = student.compiler
    if compiler is None:
        return None
    launched = outcome.reply.specialisations
    n_left = outcome.reply.n_specialisations - len(launched)
    if n_left:
        compiler.note(f"{n_left} kernels of one call were not checked by the compiler: too many")
    refusal = compiler.refusal(launched)
    if refusal is None:
        return None
    what, *details = told(refusal, compiler)
    return verify.fail(Verdict.COMPILE_ERROR, what, trial.context, *details)


def told(refusal: RefusedSeen, compiler: Compiler) -> tuple[str, ...]:
    """A refusal in words: the line and the reason, then the source line and who says so."""
    first, *more = refusal.reason.splitlines() or ["refused without a reason"]
    return (
        f"{refusal.file}:{refusal.line}: {first}",
        refusal.source_line,
        *more,
        f"the simulator runs this kernel, but Triton's compiler refuses it for sm_{compiler.arch}",
    )
