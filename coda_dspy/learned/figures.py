"""Figures as a profile states them: value, 95 % interval, sample size; nothing else is taken from a file."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Weight = Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**9)]


class Stated(BaseModel):
    """The base of all that is learned: no field beyond those declared, and no word where a number belongs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Measured(Stated):
    """A figure with the ends of its 95 % interval, over `n` questions."""

    value: Annotated[float, Field(ge=0, le=10**6, allow_inf_nan=False)]
    low: Annotated[float, Field(ge=0, le=10**6, allow_inf_nan=False)]
    high: Annotated[float, Field(ge=0, le=10**6, allow_inf_nan=False)]
    n: Count

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} lies outside its interval, {self.low} to {self.high}")
        return self


class Share(Measured):
    """A share: a figure from 0 to 1."""

    value: Fraction
    low: Fraction
    high: Fraction
