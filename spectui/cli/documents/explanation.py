"""The explanation of a setting, and the costs it rests on."""

from spectui.documents import Json, or_reason
from spectui.trace.costs import Costs
from spectui.tune.explain import Explanation

_NO_DRAFT_HELPS = "even a draft for nothing would not pay at this acceptance"
_FREE = "drafting takes next to nothing as it is"


def explanation_fields(explanation: Explanation) -> Json:
    """``explanation``, the paragraph, and ``explanation_terms``, its numbers."""
    return {
        "explanation": explanation.text,
        **or_reason("explanation_terms", _terms(explanation), explanation.text),
    }


def _terms(explanation: Explanation) -> Json | None:
    found = explanation.findings
    if found is None:
        return None
    terms = found.terms
    no_draft = _FREE if found.drafts_are_free else _NO_DRAFT_HELPS
    return {
        "alpha": terms.alpha,
        "c": terms.c,
        "draft_step_s": terms.step_s,
        "target_step_s": terms.target_step_s,
        "drafted_per_round": terms.drafted,
        "tokens_per_round": terms.emitted,
        "verify_ratio": terms.verify_ratio,
        "round_s": {
            "draft": terms.draft_s,
            "second_draft_pass": terms.again_s,
            "verify": terms.verify_s,
            "sample": terms.sample_s,
            "rollback": terms.rollback_s,
            "other": terms.other_s,
        },
        "speedup": found.speedup,
        "speedup_source": "measured" if found.is_measured else "replayed",
        "decides": str(found.decides),
        "speedup_without": found.speedup_without,
        **or_reason("break_even_draft_step_s", found.break_even_step_s, no_draft),
        **or_reason("break_even_c", found.break_even_c, no_draft),
        **or_reason(
            "break_even_alpha",
            found.break_even_alpha,
            "even a draft that is always right would not pay at these costs",
        ),
        "speedup_if_free": found.speedup_if_free,
        "speedup_if_perfect": found.speedup_if_perfect,
        "speedup_limit": found.limit,
    }


def costs_document(costs: Costs) -> Json:
    """Costs of rounds with a draft, as a trace holds them; lists by ``n_drafted``."""
    return {
        "n_past": costs.n_past,
        "n_drafted": list(costs.lengths),
        "verify_s": list(costs.verify_s),
        "verify_growth_s": list(costs.verify_growth_s),
        "verify_ratio": [seconds / costs.single_s for seconds in costs.verify_s],
        "second_draft_pass_s": list(costs.again_s),
        "second_draft_pass_growth_s": list(costs.again_growth_s),
        "draft_step_s": costs.step_s,
        "draft_step_growth_s": costs.step_growth_s,
        "c": costs.step_s / costs.single_s,
        "catch_up_s": costs.catch_up_s,
        "per_token_s": costs.token_s,
        "per_round_s": costs.fixed_s,
        "per_rejection_s": costs.rollback_s,
        "per_token_before_rejection_s": costs.rollback_token_s,
        "off_s": costs.off_s,
        "off_growth_s": costs.off_growth_s,
        **or_reason("spread", costs.spread, "too few generations drafted the same lengths"),
        "cliffs": list(costs.cliffs),
    }
