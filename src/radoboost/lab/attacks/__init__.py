"""What an adversary gets: the paper's hardness results as running code, and attacks on our own releases.

Every attack says what it assumes the adversary to know, and ends within its time limit.

Modules: `adversary_knowledge`, `attack_suite`, `exact_reconstruction`, `feature_band_leak`, `linear_reconstruction`,
`mechanism_from_release`, `membership`, `plain_likelihood`, `roc`, `row_probe`, `studies`, `subset_sum`.
"""

ATTACKS = {
    "reconstruct": "radoboost.lab.attacks.exact_reconstruction",
    "linear": "radoboost.lab.attacks.linear_reconstruction",
    "probe": "radoboost.lab.attacks.row_probe",
    "leak": "radoboost.lab.attacks.feature_band_leak",
    "membership": "radoboost.lab.attacks.membership",
    "confounder": "radoboost.lab.theory.confounder",
    "hardness": "radoboost.lab.theory.solver_limits",
}
"""Name on the command line -> module of radoboost, imported on first use.

Each module has NAME, TITLE, and ASSUMES, which says what the adversary is assumed to know. Its results have to_dict()
and sentence(). All but the first have study(), which draws curves of what the attack gets.
"""
