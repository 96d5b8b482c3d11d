"""What an adversary gets: the paper's hardness results as running code, and attacks on our own releases.

Every attack says what it assumes the adversary to know, and ends within its time limit.
"""

ATTACKS = {
    "reconstruct": "radoboost.adversary.reconstruction",
    "linear": "radoboost.adversary.linear",
    "probe": "radoboost.adversary.probe",
    "leak": "radoboost.adversary.joint_leak",
    "membership": "radoboost.adversary.membership",
    "confounder": "radoboost.paper.hardness.confounder",
    "hardness": "radoboost.paper.hardness.solver_limits",
}
"""Name on the command line -> module of radoboost, imported on first use.

Each module has NAME, TITLE, and ASSUMES, which says what the adversary is assumed to know. Its results have to_dict()
and sentence(). All but the first have study(), which draws curves of what the attack gets.
"""
