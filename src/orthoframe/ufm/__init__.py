"""Free features instead of an encoder: the solver, the gradient flow, the predicted Gram matrix."""

from orthoframe.ufm._descent import Reason, random_rows
from orthoframe.ufm._flow import Flow, gradient_flow
from orthoframe.ufm._gram import gram_loss, predict_gram
from orthoframe.ufm._solve import Solution, solve_ufm

__all__ = ["solve_ufm", "Solution", "Reason", "predict_gram", "gram_loss", "gradient_flow", "Flow", "random_rows"]
