"""Hooks of schemathesis: what of its cases this service means otherwise.

Bodies that break the letter of the schema but that pydantic coerces are no negative cases: the description says
`integer` and `boolean`, as FastAPI's own does, and both take `"5"` for a number and 1 for a flag. Whether ours takes
exactly what pydantic takes is compare.py's to find out. And where schemathesis leaves a header out on purpose, the
credentials it was given must not put it back; the tests of the service leave out each of them.
"""

import schemathesis
from pydantic import ValidationError
from reference import RecallRequest, SemanticRecallRequest
from schemathesis.generation.meta import CoverageScenario

MODELS = {"/recall": RecallRequest, "/semantic-recall": SemanticRecallRequest}


@schemathesis.hook
def filter_case(context, case):
    if is_wrong(case, "header"):
        return False
    model = MODELS.get(case.path)
    if model is None or not isinstance(case.body, dict) or not is_wrong(case, "body"):
        return True
    try:
        model.model_validate(case.body)
    except ValidationError:
        return True
    return False


def is_wrong(case, place):
    """Whether the fault of a case is there."""
    if case.meta is None:
        return False
    components = case.meta.components.items()
    left_out = getattr(case.meta.phase.data, "scenario", None) == CoverageScenario.MISSING_PARAMETER
    if left_out and case.meta.phase.data.parameter_location.value == place:
        return True
    return any(at.value == place and component.mode.is_negative for at, component in components)
