"""The paper's lemmas, theorems and hardness results as checks that run.

Modules: `boosting_bound`, `concentration`, `confounder`, `decision_problems`, `dp_feat`, `gaussian_theorem`,
`mean_zero`, `norm_lemma`, `reductions`, `rejection_sampling`, `solver_limits`, `sphere_packing`, `theory`.
"""
