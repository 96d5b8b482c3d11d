"""The paper's hardness results as running code: confounders, decision problems, reductions."""
