"""What every group of settings is, and the kinds of value that several of them have."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1)]
Positive = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A group of settings. Keys that it does not have are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True, allow_inf_nan=False
    )
